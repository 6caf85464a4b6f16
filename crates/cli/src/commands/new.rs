//! `cogwork new`

use authoring::scaffold::{KINDS, Kind, automation_with_action, new_automation, suggest_id};
use clap::Args;
use model::AutomationId;

use super::Subcommand;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, STRONG, paint};
use crate::paths;
use crate::scaffold;

const EXAMPLES: &str = "\
Examples:
  cogwork new \"Order desk\" --trigger webhook     writes automations/order-desk.yaml and its tests
  cogwork new nightly --trigger schedule
  cogwork new page-writer --trigger manual --action wiki.createPage
  cogwork new \"Bestellung für Ärger\" --id order-trouble --trigger event
  cogwork new invoices --trigger ownEvent          starts by an event that another automation sends
  cogwork new alerts --trigger failure             starts when something fails
  cogwork new                                    prompts for both";

/// Create an automation and its first tests, with comments
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct New {
    /// The name; prompted for if not given
    name: Option<String>,
    /// Its id, which names its file; if not given, it is derived from the name, with a prompt at a terminal
    #[arg(long)]
    id: Option<String>,
    /// The trigger; prompted for if not given
    #[arg(long, value_parser = KINDS.map(|kind| kind.name))]
    trigger: Option<String>,
    /// An action that its one step calls, with the inputs of the action's example
    #[arg(long)]
    action: Option<String>,
}

impl Subcommand for New {
    const NAME: &'static str = "new";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let name = match self.name {
            Some(name) => name,
            None => ask_name()?,
        };
        let id = match &self.id {
            Some(id) => AutomationId::parse(id).ok_or_else(|| CommandError::usage(no_id(id)))?,
            None => choose_id(name.trim())?,
        };
        let kind = match self.trigger.as_deref().and_then(Kind::find) {
            Some(kind) => kind,
            None => ask_kind()?,
        };
        let catalog = authoring::check_project(context.dir(), &[])?.catalog;
        let new = match &self.action {
            None => new_automation(&catalog, kind, &id, name.trim()),
            Some(action) => automation_with_action(&catalog, (kind, &id, name.trim()), action)
                .map_err(CommandError::usage)?,
        };
        let create = |path: &str, text: &str, note: &str| -> anyhow::Result<()> {
            let path = context.dir().join(path);
            scaffold::create(&path, text)?;
            output::say(format_args!("wrote {}{note}", paths::shown(&path)));
            Ok(())
        };
        create(&new.path, &new.text, "")?;
        for (path, text) in &new.connections {
            create(path, text, ": fill it in")?;
        }
        // Existing tests may belong to a deleted automation, so they are left for a person to inspect.
        if !context.dir().join(&new.test_path).exists() {
            create(&new.test_path, &new.test, "")?;
        }
        output::say(format_args!("\nNext:\n  {}", paint(STRONG, kind.next.replace("{id}", id.as_str()))));
        Ok(Exit::Done)
    }
}

/// The id of a new automation. If it differs from the name, an interactive user confirms it, and others get a message.
fn choose_id(name: &str) -> anyhow::Result<AutomationId> {
    let none = || CommandError::usage(format!("`{name}` has no letter or digit that an id could be made of"));
    let suggested = suggest_id(name).ok_or_else(none)?;
    if suggested.as_str() == name {
        return Ok(suggested);
    }
    if !output::can_ask() {
        output::say(format_args!("its id is `{suggested}`; --id gives it another"));
        return Ok(suggested);
    }
    loop {
        match output::ask(&format!("Its id, and the name of its file [{suggested}]:"))? {
            Some(id) if id.is_empty() => return Ok(suggested),
            Some(id) => match AutomationId::parse(&id) {
                Some(id) => return Ok(id),
                None => output::say(no_id(&id)),
            },
            None => return Err(CommandError::usage("no id was chosen")),
        }
    }
}

fn no_id(text: &str) -> String {
    format!(
        "`{text}` cannot be an id: lower-case letters, digits and `-`, a letter or digit first, such as `order-desk`"
    )
}

fn ask_name() -> anyhow::Result<String> {
    if !output::can_ask() {
        return Err(CommandError::usage(
            "give the name of the new automation: `cogwork new NAME --trigger webhook`",
        ));
    }
    loop {
        match output::ask("What is it called?")? {
            Some(name) if suggest_id(&name).is_some() => return Ok(name),
            Some(_) => output::say("It needs a letter or a digit."),
            None => return Err(CommandError::usage("no name was given")),
        }
    }
}

fn ask_kind() -> anyhow::Result<&'static Kind> {
    let names = KINDS.map(|kind| kind.name).join(", ");
    if !output::can_ask() {
        return Err(CommandError::usage(format!("give what starts it with `--trigger`: {names}")));
    }
    output::say("What starts it?");
    for (index, kind) in KINDS.iter().enumerate() {
        // Padded before styling, since the style would count towards the width.
        let name = format!("{:<10}", kind.name);
        output::say(format_args!("  {}  {}{}", index + 1, paint(STRONG, name), kind.about));
    }
    loop {
        let Some(answer) = output::ask("Name or number:")? else {
            return Err(CommandError::usage("nothing was chosen"));
        };
        let number = answer.parse::<usize>().ok().and_then(|number| KINDS.get(number.checked_sub(1)?));
        if let Some(kind) = number.or_else(|| Kind::find(&answer)) {
            return Ok(kind);
        }
        output::say(format_args!("It is one of {names}."));
    }
}
