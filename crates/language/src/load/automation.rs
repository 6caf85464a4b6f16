//! The top level of an automation file.

use std::sync::Arc;

use model::automation::{
    Automation, AutomationId, Block, DeclaredDefaults, DeclaredTrigger, DefinitionHash, Trigger, TriggerId,
};
use model::retry::{RetryOn, RetryPolicy};
use text::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use text::yaml::{Field, MapReader, Node};

use super::common::{inner, no_expression, plain, shorten};
use super::keys::{AUTOMATION_ID, Choice, IDENTIFIER, Key, Object, Shape};
use super::policy::{CONCURRENCY, EXECUTION_RETRY, RETENTION, concurrency, retention, retry, timeout};
use super::steps::{Lists, Steps, check_flow};
use super::template::template;
use super::{Partial, Unreadable, defaults, inputs, level, trigger};

pub(crate) static AUTOMATION: Object = Object {
    what: "an automation",
    keys: &[
        Key::new(
            "id",
            Shape::Pattern(AUTOMATION_ID),
            "Identifies the automation: its addresses, state and history belong to it. Default: the file's name without its ending.",
        ),
        Key::new("name", Shape::NonBlankText, "The name, for people. Default: the id."),
        Key::new("description", Shape::Text, "The description, for people."),
        Key::new("labels", Shape::List(&Shape::NonBlankText), "For people and filters."),
        Key::new("enabled", Shape::Bool, "`false` unmounts the trigger. Default: true."),
        Key::new("trigger", Shape::Object(&trigger::TRIGGER), "The trigger: exactly one kind."),
        Key::new(
            "triggers",
            trigger::TRIGGERS,
            "Several triggers, in place of `trigger`: a list of up to 20, each with an `id` and as `trigger`.",
        ),
        Key::new(
            "inputs",
            Shape::MapOf(IDENTIFIER, &inputs::DECLARED),
            "What a start gives, by hand or by `inputs` of a trigger: `{name: {type, required, default, description}}`, or the type alone: \
             `{amount: number}`.",
        ),
        Key::new(
            "configVars",
            Shape::MapOf(IDENTIFIER, &Shape::ConfigVar),
            "Values named once, read as `configVars.name`. They may read `env.X`, and with `{value, secret: true}` also `secrets.X`.",
        ),
        Key::new(
            "defaults",
            Shape::Object(&defaults::DEFAULTS),
            "Values that `action` and `call` steps take if they have none of their own: `{connection, retry, timeout}`. They go before those of `project.yaml`.",
        ),
        Key::required("steps", Shape::MaybeEmptySteps, "The steps, from top to bottom."),
        Key::new("outputs", Shape::Template, "The result. Default: that of the last step."),
        Key::new("onError", Shape::Steps, "Steps that run if the execution fails; they read `error`."),
        Key::new("finally", Shape::Steps, "Steps that always run at the end."),
        Key::new("timeout", Shape::Duration, "The time limit of the execution. Default: 15m."),
        Key::new(
            "retry",
            Shape::AnyOf(&[Shape::Integer(0, super::policy::MAX_RETRIES), Shape::Object(&EXECUTION_RETRY)]),
            "Further tries of the whole execution, each from the step that failed; not with a synchronous webhook. \
             Default: none.",
        ),
        Key::new(
            "concurrency",
            Shape::Object(&CONCURRENCY),
            "How many executions may run at the same time. Default: any.",
        ),
        Key::new(
            "retention",
            Shape::Object(&RETENTION),
            "How long executions are kept. Default: the daemon's.",
        ),
    ],
    choice: Choice::ExactlyOne(&["trigger", "triggers"]),
};

pub(super) fn read(
    node: &Node,
    stem: &str,
    source: Arc<Source>,
    diagnostics: &Diagnostics,
) -> Option<Partial<Automation>> {
    let mut reader = AUTOMATION.open(node, diagnostics)?;
    let mut unreadable = unknown_entries(&reader);
    let (id, id_span) = id(&mut reader, stem, diagnostics);
    let id = id.or_else(|| AutomationId::suggest(stem)).or_else(|| AutomationId::parse("unreadable"))?;
    let name = plain(reader.take("name"), diagnostics).map(str::to_owned);
    let description = reader.take("description").string().map(str::to_owned);
    let labels = labels(reader.take("labels"), diagnostics);
    let enabled = reader.take("enabled").bool().unwrap_or(true);
    let mut started = trigger::read(reader.take("trigger"), reader.take("triggers"), diagnostics);
    let declared = inputs::inputs(reader.take("inputs"), &mut unreadable, diagnostics);
    let short_form = inputs::short_form(reader.take("inputs"));
    unused_inputs(&reader, &started, diagnostics);
    let config_vars = inputs::config_vars(reader.take("configVars"), &mut unreadable, diagnostics);
    let declared_defaults = declared_defaults(&mut reader, &mut unreadable, diagnostics);
    let (blocks, mut unreadable) = Blocks::read(&mut reader, started.settled(), unreadable, diagnostics);
    let outputs = reader.take("outputs").node().map(|node| template(node, diagnostics));
    let timeout = timeout(reader.take("timeout"), diagnostics).unwrap_or(Automation::DEFAULT_TIMEOUT);
    let is_sync = started.is_sync();
    let retry = execution_retry(&mut reader, is_sync, diagnostics);
    let concurrency = concurrency(reader.take("concurrency"), is_sync, diagnostics);
    let retention = retention(reader.take("retention"), diagnostics);
    reader.finish();

    if started.settled().is_none() {
        unreadable.note("trigger");
    }
    if started.read.is_empty() {
        started.read.push(stand_in(id_span));
    }
    let mut value = Automation {
        definition: DefinitionHash::compute(&id, source.text()),
        name: name.unwrap_or_else(|| id.to_string()),
        id,
        id_span,
        description,
        labels,
        enabled,
        triggers: started.read,
        inputs: declared,
        config_vars,
        steps: blocks.steps,
        outputs,
        on_error: blocks.on_error,
        finally: blocks.finally,
        timeout,
        retry,
        concurrency,
        retention,
        source,
        code_files: Vec::new(),
        declared_defaults,
        defaults: None,
        leveled_word: None,
    };
    value.leveled_word = level::find(&value, short_form);
    Some(Partial { value, unreadable })
}

/// The trigger of a file whose own ones cannot be read.
fn stand_in(span: Span) -> DeclaredTrigger {
    DeclaredTrigger {
        id: TriggerId::MAIN,
        id_span: span,
        on: Trigger::Manual,
        span,
        enabled: None,
        condition: None,
        inputs: None,
    }
}

fn declared_defaults(
    reader: &mut MapReader<'_, '_>,
    unreadable: &mut Unreadable,
    diagnostics: &Diagnostics,
) -> Option<Arc<DeclaredDefaults>> {
    let span = reader.key_span("defaults");
    let node = reader.take("defaults").node()?;
    let errors = diagnostics.error_count();
    let declared = defaults::read(node, span, diagnostics);
    if diagnostics.error_count() > errors {
        unreadable.note("defaults");
    }
    declared.map(Arc::new)
}

/// Records the effect of unknown keys: each absent key may be misspelt in one of them, and names below them may
/// be steps or variables.
fn unknown_entries(reader: &MapReader<'_, '_>) -> Unreadable {
    let mut unreadable = Unreadable::new();
    reader.unknown_entries().for_each(|stranger| unreadable.note_names(&stranger.value));
    if reader.unknown_entries().next().is_some() {
        AUTOMATION.keys.iter().filter(|key| !reader.has(key.name)).for_each(|key| unreadable.note(key.name));
    }
    unreadable
}

/// The id and its span: the value of `id`, else the file stem.
fn id(reader: &mut MapReader<'_, '_>, stem: &str, diagnostics: &Diagnostics) -> (Option<AutomationId>, Span) {
    let rule = "an id has small letters, digits and `-`, begins with a letter or digit, and has at most 100 characters";
    let field = reader.take("id");
    if field.is_present() {
        let Some(text) = field.text() else { return (None, field.span().unwrap_or_default()) };
        let id = AutomationId::parse(&text.value);
        if id.is_none() && no_expression(text, diagnostics) {
            let message = format!("`{}` cannot be the id of an automation", shorten(&text.value));
            let near = AutomationId::suggest(&text.value).map(|near| near.to_string());
            diagnostics.push(Diagnostic::error("invalid-id", message, inner(text)).help(rule).nearest(near));
        }
        return (id, inner(text));
    }
    let start = Span::at(reader.node().span.start as usize);
    let id = AutomationId::parse(stem);
    if id.is_none() {
        let message = format!("the file's name `{}` cannot be the id of an automation", shorten(stem));
        let help = AutomationId::suggest(stem).map_or_else(
            || format!("add one with `id: …`; {rule}"),
            |near| format!("rename the file to `{near}.yaml`, or add `id: {near}`"),
        );
        diagnostics.push(Diagnostic::error("invalid-id", message, start).help(help));
    }
    (id, start)
}

fn labels(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<String> {
    let items = field.items().unwrap_or_default();
    items.into_iter().filter_map(|item| plain(item, diagnostics)).map(str::to_owned).collect()
}

fn unused_inputs(reader: &MapReader<'_, '_>, started: &trigger::Triggers, diagnostics: &Diagnostics) {
    let Some(triggers) = started.settled().filter(|_| reader.has("inputs")) else { return };
    let gives = |trigger: &DeclaredTrigger| matches!(trigger.on, Trigger::Manual) || trigger.inputs.is_some();
    let Some(first) = triggers.first().filter(|_| !triggers.iter().any(gives)) else { return };
    let word = first.on.keyword();
    let message = format!("a `{word}` start gives no inputs: each has its default, or nothing");
    diagnostics.push(
        Diagnostic::warning("unused-setting", message, reader.key_span("inputs"))
            .related(first.span, "the trigger")
            .help(
                "add `inputs` to the trigger, such as `inputs: {name: \"${{ trigger.results.body.data.name }}\"}`; or name values that stay \
                 the same under `configVars`, and read them as `configVars.<name>`",
            ),
    );
}

/// An execution is retried on every error that no step has handled.
fn execution_retry(reader: &mut MapReader<'_, '_>, is_sync: bool, diagnostics: &Diagnostics) -> RetryPolicy {
    let policy = retry(reader.take("retry"), &EXECUTION_RETRY, diagnostics);
    if is_sync && reader.has("retry") {
        let message = "an execution of a synchronous webhook cannot be tried again, because its caller waits";
        diagnostics.push(
            Diagnostic::error("sync-retry", message, reader.key_span("retry"))
                .help("put `retry` on the steps that need it, or write `mode: async`"),
        );
    }
    RetryPolicy { on: vec![RetryOn::All], ..policy }
}

/// The lists of steps of a file.
struct Blocks {
    steps: Block,
    on_error: Option<Block>,
    finally: Option<Block>,
}

impl Blocks {
    fn read(
        reader: &mut MapReader<'_, '_>,
        triggers: Option<&[DeclaredTrigger]>,
        unreadable: Unreadable,
        diagnostics: &Diagnostics,
    ) -> (Self, Unreadable) {
        let fields = ["steps", "onError", "finally"].map(|key| reader.take(key));
        let lists: Vec<&Node> = fields.iter().filter_map(|field| field.node()).collect();
        let mut steps = Steps::new(&lists, unreadable, diagnostics);
        let [work, on_error, finally] = fields;
        if let Some(node) = work.node().filter(|node| node.as_list().is_some_and(<[Node]>::is_empty)) {
            diagnostics.push(
                Diagnostic::hint(
                    "empty-automation",
                    "this automation has no steps: its result is null",
                    node.span,
                )
                .help("add a step"),
            );
        }
        let blocks = Self {
            steps: work.node().and_then(|node| steps.list(node, "steps")).unwrap_or_default(),
            on_error: on_error.node().and_then(|node| steps.block(node, "onError")),
            finally: finally.node().and_then(|node| steps.block(node, "finally")),
        };
        let mut unreadable = steps.into_unreadable();
        if !work.is_present() {
            unreadable.note("steps");
        }
        let lists = Lists {
            steps: &blocks.steps,
            on_error: blocks.on_error.as_ref(),
            finally: blocks.finally.as_ref(),
            triggers,
            has_outputs: reader.has("outputs"),
        };
        check_flow(&lists, &unreadable, diagnostics);
        (blocks, unreadable)
    }
}
