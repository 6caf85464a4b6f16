//! Checks of own events, over the files of a project and their reloads.

use std::path::Path;
use std::sync::Arc;

use catalog::{AssembleInput, Catalog, DeploymentState, Folder, ReloadSummary, ScanScope, assemble, builtin};
use connector::Registry;
use model::AutomationId;
use text::Severity;
use text::diagnostic::Report;

/// A project folder with the snapshot of its files.
struct Project {
    dir: tempfile::TempDir,
    builtin: Arc<Registry>,
    folder: Folder,
    catalog: Catalog,
}

impl Project {
    #[track_caller]
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let builtin = Arc::new(builtin().expect("the connectors load"));
        let (folder, catalog) = (Folder::new(dir.path()), Catalog::empty(builtin.clone()));
        let mut project = Self { dir, builtin, folder, catalog };
        project.reload(files);
        project
    }

    /// Writes files, or deletes those with an empty text, and reloads.
    fn reload(&mut self, files: &[(&str, &str)]) -> ReloadSummary {
        for (path, text) in files {
            let path = self.dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            match text.is_empty() {
                true => std::fs::remove_file(path).expect("the file is deleted"),
                false => std::fs::write(path, text).expect("the file is written"),
            }
        }
        let changed = self.folder.scan(&ScanScope::Full);
        let (catalog, reload) = assemble(AssembleInput {
            previous: &self.catalog,
            folder: self.folder.clone(),
            changed,
            refused_level: None,
            builtin: &self.builtin,
            address: &mut |_, _| None,
        });
        self.catalog = catalog;
        reload
    }

    fn report(&self, path: &str) -> Option<&Arc<Report>> {
        self.catalog.reports().find(|report| report.source().path() == path)
    }

    /// The problems of a file, except unused values: `code text`, with the suggested name if any.
    fn problems(&self, path: &str) -> Vec<String> {
        let Some(report) = self.report(path) else { return Vec::new() };
        let told = report.diagnostics().iter().filter(|told| told.code != "unused-value");
        told.map(|told| {
            let near = told.nearest.as_ref().map(|near| format!(" ({near})")).unwrap_or_default();
            format!("{} {}{near}", told.code, report.source().slice(told.span))
        })
        .collect()
    }

    #[track_caller]
    fn check(&self, path: &str, expected: &[&str]) {
        let shown = self.report(path).map(|report| report.render(false)).unwrap_or_default();
        assert_eq!(self.problems(path), expected, "\n{path}\n{shown}");
    }

    #[track_caller]
    fn check_words(&self, path: &str, words: &str) {
        let shown = self.report(path).map(|report| report.render(false)).unwrap_or_default();
        assert!(shown.contains(words), "`{words}` is not said:\n{shown}");
    }

    fn state(&self, id: &str) -> Option<DeploymentState> {
        self.catalog.get(&AutomationId::parse(id)?).map(|deployment| deployment.state())
    }
}

const PAY: &str = "automations/pay.yaml";
const BOOK: &str = "automations/book.yaml";

/// A file that sends `order.paid` with these inputs beside the name.
fn sender(with: &str) -> String {
    format!(
        "trigger: {{manual: {{}}}}\ninputs: {{title: {{type: text, required: true}}, tags: list}}\nsteps:\n  - action: events.emit\n    with:\n      name: order.paid\n{with}"
    )
}

/// A file that a trigger with these keys starts.
fn consumer(keys: &str) -> String {
    format!("trigger: {{{keys}}}\nsteps:\n  - action: log.info\n    with: {{message: started}}\n")
}

const TYPED: &str = "event: order.paid, data: {order: {type: text, required: true}, amount: number, size: {options: [small, large]}}";

#[track_caller]
fn check_sent(with: &str, expected: &[&str]) -> Project {
    let project = Project::new(&[(PAY, &sender(with)), (BOOK, &consumer(TYPED))]);
    project.check(PAY, expected);
    project.check(BOOK, &[]);
    project
}

#[test]
fn an_event_whose_first_part_is_no_connector_starts_an_automation() {
    let text = consumer("event: order.paid");
    let project = Project::new(&[(PAY, &sender("")), (BOOK, &text)]);
    project.check(PAY, &[]);
    project.check(BOOK, &[]);
    let deployment = project.catalog.find("book").expect("it loads");
    let event = deployment.automation.triggers[0].on.own_event().expect("it is an own event");
    assert_eq!(event.name.name, "order.paid");
    assert_eq!(deployment.automation.level().number(), 2);
    assert_eq!(project.catalog.awaited_events().consumers("order.paid").len(), 1);
}

#[test]
fn a_name_near_the_event_of_a_connector_is_unknown_unless_it_is_sent_or_has_data() {
    let near = Project::new(&[(BOOK, &consumer("event: wikii.pageChanged"))]);
    near.check(BOOK, &["unknown-event wikii.pageChanged (wiki.pageChanged)"]);
    assert_eq!(near.state("book"), None);
    let bare = Project::new(&[(BOOK, &consumer("event: pageChanged"))]);
    bare.check(BOOK, &["unknown-event pageChanged (wiki.pageChanged)"]);
    let declared = Project::new(&[(BOOK, &consumer("event: wikii.pageChanged, data: {page: text}"))]);
    declared.check(BOOK, &["nobody-sends wikii.pageChanged"]);
    let sent = sender("").replace("order.paid", "wikii.pageChanged");
    let sent = Project::new(&[(PAY, &sent), (BOOK, &consumer("event: wikii.pageChanged"))]);
    sent.check(BOOK, &[]);
    let of_connector = Project::new(&[(BOOK, &consumer("event: wiki.paid"))]);
    of_connector.check(BOOK, &["unknown-event wiki.paid"]);
    of_connector.check_words(BOOK, "names that begin with `wiki.` are those of the connector");
}

#[test]
fn an_event_that_no_step_sends_has_a_hint() {
    let unsent = Project::new(&[(BOOK, &consumer("event: order.paid"))]);
    unsent.check(BOOK, &["nobody-sends order.paid"]);
    assert_eq!(unsent.report(BOOK).expect("a report").diagnostics()[0].severity, Severity::Hint);
    assert_eq!(unsent.state("book"), Some(DeploymentState::Active));
    let misspelt = Project::new(&[(PAY, &sender("")), (BOOK, &consumer("event: order.payed"))]);
    misspelt.check(BOOK, &["nobody-sends order.payed (order.paid)"]);
    let computed = |name: &str| {
        let text = sender("").replace("name: order.paid", &format!("name: {name}"));
        Project::new(&[(PAY, &text), (BOOK, &consumer("event: order.paid"))])
    };
    computed("\"order.${{ inputs.title }}\"").check(BOOK, &[]);
    computed("\"${{ inputs.title }}\"").check(BOOK, &[]);
    computed("\"stock.${{ inputs.title }}\"").check(BOOK, &["nobody-sends order.paid"]);
}

#[test]
fn another_spelling_of_an_event_is_reported_at_its_trigger() {
    let text = sender("").replace("order.paid", "order.paid_out");
    let project = Project::new(&[(PAY, &text), (BOOK, &consumer("event: order.paidOut, data: {a: text}"))]);
    project.check(BOOK, &["other-spelling order.paidOut"]);
    project.check_words(BOOK, "written `order.paid_out` in automations/pay.yaml");
}

#[test]
fn data_that_do_not_fit_a_consumer_are_a_warning_at_the_sender() {
    check_sent("      data: {order: a-1, amount: 12.5, size: small}\n", &[]);
    // Digits become a number, and a number becomes text.
    check_sent("      data: {order: 17, amount: \"12.5\"}\n", &[]);
    let project = check_sent("      data: {order: a-1, amount: much}\n", &["event-data much"]);
    project.check_words(
        PAY,
        "`amount` of `order.paid` is the text `much` here; automations/book.yaml expects a number",
    );
    check_sent("      data: {order: a-1, size: middle}\n", &["event-data middle"]);
    check_sent("      data: {order: a-1, amount: [1]}\n", &["event-data [1]"]);
}

#[test]
fn computed_data_are_compared_by_their_type() {
    check_sent(
        "      data: {order: \"${{ inputs.title }}\", amount: \"${{ inputs.title | length }}\"}\n",
        &[],
    );
    let project = check_sent(
        "      data:\n        order: ${{ inputs.title }}\n        amount: ${{ inputs.tags }}\n",
        &["event-data ${{ inputs.tags }}"],
    );
    project.check_words(PAY, "`amount` of `order.paid` is a list of anything or null here");
    check_sent("      data: ${{ inputs.title }}\n", &["event-data ${{ inputs.title }}"]);
    check_sent("      data: some text\n", &["event-data some text"]);
}

#[test]
fn missing_and_misspelt_fields_are_reported_at_the_sender() {
    let project = check_sent("", &["event-data order.paid"]);
    project.check_words(PAY, "`order.paid` is sent without `order`; automations/book.yaml requires it");
    check_sent("      data: {amount: 1}\n", &["event-data {amount: 1}"]);
    check_sent("      data: {ordre: a-1}\n", &["event-data ordre (order)"]);
    check_sent("      data: {order: a-1, amuont: 1}\n", &["event-data amuont (amount)"]);
    // Other automations may read more.
    check_sent("      data: {order: a-1, customer: 7}\n", &[]);
    let any = ("automations/log.yaml", &*consumer("event: order.paid"));
    let project = Project::new(&[
        (PAY, &sender("      data: {order: a-1, amuont: 1}\n")),
        (BOOK, &consumer(TYPED)),
        any,
    ]);
    project.check(PAY, &[]);
}

#[test]
fn a_consumer_that_changes_its_data_checks_its_senders_again_and_none_becomes_stale() {
    let sends = sender("      data: {order: a-1, amount: 1}\n");
    let mut project = Project::new(&[(PAY, &sends), (BOOK, &consumer("event: order.paid"))]);
    project.check(PAY, &[]);
    let strict =
        consumer("event: order.paid, data: {order: integer, customer: {type: text, required: true}}");
    let reload = project.reload(&[(BOOK, &strict)]);
    project.check(PAY, &["event-data {order: a-1, amount: 1}", "event-data a-1"]);
    assert_eq!(project.state("pay"), Some(DeploymentState::Active));
    assert!(reload.stale.is_empty() && reload.changed == [AutomationId::parse("book").expect("an id")]);
    project.reload(&[(BOOK, "")]);
    project.check(PAY, &[]);
    project.reload(&[(BOOK, &strict)]);
    project.check(PAY, &["event-data {order: a-1, amount: 1}", "event-data a-1"]);
}

#[test]
fn a_sender_that_comes_or_goes_changes_the_hint_at_the_trigger() {
    let mut project = Project::new(&[(BOOK, &consumer("event: order.paid"))]);
    project.check(BOOK, &["nobody-sends order.paid"]);
    project.reload(&[(PAY, &sender(""))]);
    project.check(BOOK, &[]);
    project.reload(&[(PAY, &sender("").replace("order.paid", "\"order.${{ inputs.title }}\""))]);
    project.check(BOOK, &[]);
    project.reload(&[(PAY, &sender("").replace("order.paid", "\"stock.${{ inputs.title }}\""))]);
    project.check(BOOK, &["nobody-sends order.paid"]);
}

const ORDERS: &str = "connector: order\ntitle: Orders\nversion: 1.0.0\nbaseUrl: https://orders.test/v1\nactions:\n  list: {title: List, request: GET /orders, example: {with: {}, request: GET /orders}}\n";

#[test]
fn a_connector_that_takes_the_name_of_an_own_event_leaves_its_last_version_in_force() {
    let manifest = ("connectors/order.yaml", ORDERS);
    for keys in ["event: order.paid", TYPED] {
        let sends = sender("      data: {order: a-1}\n");
        let mut project = Project::new(&[(PAY, &sends), (BOOK, &consumer(keys))]);
        project.check(BOOK, &[]);
        project.reload(&[manifest]);
        assert!(project.catalog.registry().connector("order").is_some());
        project.check(BOOK, &["ambiguous-event order.paid"]);
        project.check_words(BOOK, "here and in automations/pay.yaml");
        assert_eq!(project.state("book"), Some(DeploymentState::Stale));
        project.check(PAY, &[]);
        assert_eq!(project.catalog.awaited_events().consumers("order.paid").len(), 1);
        project.reload(&[(manifest.0, "")]);
        project.check(BOOK, &[]);
        assert_eq!(project.state("book"), Some(DeploymentState::Active));
    }
}

#[test]
fn a_retried_change_without_a_key_of_the_call_is_a_warning() {
    let check = |request: &str, top: &str, own: &str, retry: &str, expected: &[&str]| {
        let manifest = format!(
            "connector: order\ntitle: Orders\nversion: 1.0.0\nbaseUrl: https://orders.test\n{top}actions:\n  make:\n    title: Make\n    request: {request} /orders\n{own}    example: {{with: {{}}, request: {request} /orders}}\n"
        );
        let text = format!("trigger: {{manual: {{}}}}\nsteps:\n  - action: order.make\n{retry}");
        let project = Project::new(&[("connectors/order.yaml", &manifest), (PAY, &text)]);
        project.check(PAY, expected);
    };
    let (none, retry) = ("idempotency: none\n", "    retry: 3\n");
    check("POST", none, "", retry, &["repeated-write retry"]);
    check("POST", "", "    idempotency: none\n", retry, &["repeated-write retry"]);
    // Correct input that is close to it.
    check("POST", none, "", "", &[]);
    check("POST", none, "", "    retry: 0\n", &[]);
    check("POST", "", "", retry, &[]);
    check("POST", none, "    idempotency: safe\n", retry, &[]);
    check("POST", none, "    effect: read\n", retry, &[]);
    check("POST", none, "    idempotency: {header: X-Key}\n", retry, &[]);
    check("PUT", none, "", retry, &[]);
    check("DELETE", none, "", retry, &[]);
    check("POST", none, "", "    retry: 3 # cogwork: allow(repeated-write): twice does no harm\n", &[]);
}

#[test]
fn names_of_the_engine_are_reported_where_they_are_sent() {
    let text = sender("").replace("order.paid", "cogwork.failure");
    let project = Project::new(&[(PAY, &text)]);
    project.check(PAY, &["reserved-event cogwork.failure"]);
    assert_eq!(project.state("pay"), Some(DeploymentState::Active));
    let text = sender("").replace("order.paid", "cogworks.failure");
    Project::new(&[(PAY, &text)]).check(PAY, &[]);
}

#[test]
fn one_event_starts_at_most_a_hundred_triggers() {
    let files: Vec<(String, String)> =
        (0..101).map(|at| (format!("automations/c{at:03}.yaml"), consumer("event: order.paid"))).collect();
    let mut all: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let text = sender("");
    all.push((PAY, &text));
    let project = Project::new(&all);
    project.check("automations/c099.yaml", &[]);
    project.check("automations/c100.yaml", &["too-many-triggers order.paid"]);
}

#[test]
fn declared_data_give_expressions_their_types() {
    let check = |keys: &str, expression: &str, expected: &[&str]| {
        let text = format!(
            "trigger: {{{keys}}}\nsteps:\n  - set: {{a: \"${{{{ {expression} }}}}\"}}\noutputs: ${{{{ vars.a }}}}\n"
        );
        let project = Project::new(&[(PAY, &sender("      data: {order: a-1}\n")), (BOOK, &text)]);
        project.check(BOOK, expected);
        if expression.starts_with("event") {
            project.check_words(BOOK, "did you mean `trigger.results.");
        }
    };
    check(TYPED, "event.id", &["unknown-name event"]);
    check(TYPED, "trigger.results.body.data.order ~ trigger.results.event.id", &[]);
    check(TYPED, "trigger.results.body.data.ordre", &["unknown-field ordre (order)"]);
    check(TYPED, "trigger.results.body.data.customer", &["unknown-field customer"]);
    check(TYPED, "trigger.results.body.data.order.id", &["unknown-field id"]);
    check(TYPED, "trigger.results.event.at", &["unknown-field at"]);
    check(TYPED, "event.data.order", &["unknown-name event"]);
    check("event: order.paid", "trigger.results.body.data.customer", &[]);
    check("event: order.paid", "trigger.results.polledAt", &["unknown-member polledAt"]);
}

#[test]
fn conditions_and_inputs_of_a_trigger_read_its_event() {
    let check = |condition: &str, input: &str, expected: &[&str]| {
        let text = format!(
            "trigger:\n  event: order.paid\n  data: {{order: {{type: text, required: true}}, amount: number}}\n  if: {condition}\n  inputs: {{order: \"${{{{ {input} }}}}\"}}\ninputs: {{order: text}}\nsteps:\n  - set: {{a: \"${{{{ inputs.order }}}}\"}}\noutputs: ${{{{ vars.a }}}}\n"
        );
        Project::new(&[(PAY, &sender("      data: {order: a-1}\n")), (BOOK, &text)]).check(BOOK, expected);
    };
    check("event.data.order == 'a-1'", "event.data.order", &[]);
    check("trigger.results.body.data.order == 'a-1'", "trigger.results.event.id", &[]);
    check("event.data.oder == 'a-1'", "event.name", &["unknown-field oder (order)"]);
    check("event.data.amount > 0", "event.id", &["unknown-member id"]);
    let manual = "trigger: {schedule: {every: 5m}, if: event.data.order}\nsteps: [{set: {a: 1}}]\n";
    Project::new(&[(BOOK, manual)]).check(BOOK, &["name-not-here event"]);
}

#[test]
fn a_test_file_gives_the_data_of_the_event() {
    let tests = Path::new("automations/book.test.yaml");
    let check = |found: &str, expected: &str| {
        let files = [
            (PAY, sender("      data: {order: a-1}\n")),
            (BOOK, consumer(TYPED)),
            ("automations/book.test.yaml", format!("tests:\n  - name: it starts\n{found}")),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let project = Project::new(&files);
        let checked = super::check_project(project.dir.path(), &[tests.to_owned()]).expect("it is checked");
        let shown: String = checked.reports.iter().map(|report| report.render(false)).collect();
        match expected.is_empty() {
            true => assert_eq!(checked.errors(), 0, "{shown}"),
            false => assert!(shown.contains(expected), "`{expected}` is not said:\n{shown}"),
        }
    };
    check("    found: {order: a-1, amount: 3, customer: 7}\n", "");
    check("    found: {order: a-1, amount: much}\n", "`amount` must be a number");
    check("    found: {amount: 3}\n", "needs `order`");
    check("    found: some text\n", "expects a map");
    check("    payload: {body: {order: a-1}}\n", "not-of-trigger");
    check("    found: {order: a-1}\n    receivers: [book]\n", "");
    check("    found: {order: a-1}\n    receivers: [boook]\n", "unknown-automation");
    check("    found: {order: a-1}\n    receivers: [pay]\n", "not-of-trigger");
}
