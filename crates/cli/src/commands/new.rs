//! `cogwork new`

use clap::Args;
use model::AutomationId;

use super::Subcommand;
use crate::context::Context;
use crate::exit::{Exit, Fault};
use crate::output::{self, STRONG, paint};
use crate::paths;
use crate::scaffold::{self, KINDS, Kind};

const EXAMPLES: &str = "\
Examples:
  cogwork new \"Order desk\" --trigger webhook     writes automations/order-desk.yaml and its tests
  cogwork new nightly --trigger schedule
  cogwork new                                    prompts for both";

/// Create an automation and its first tests, with comments
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct New {
    /// The name; prompted for if not given
    name: Option<String>,
    /// The trigger; prompted for if not given
    #[arg(long, value_parser = KINDS.map(|kind| kind.name))]
    trigger: Option<String>,
}

impl Subcommand for New {
    const NAME: &'static str = "new";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let name = match self.name {
            Some(name) => name,
            None => ask_name()?,
        };
        let none = || Fault::usage(format!("`{name}` has no letter or digit that an id could be made of"));
        let id = AutomationId::suggest(&name).ok_or_else(none)?;
        let kind = match self.trigger.as_deref().and_then(Kind::of) {
            Some(kind) => kind,
            None => ask_kind()?,
        };
        let path = context.dir().join("automations").join(format!("{id}.yaml"));
        scaffold::create(&path, &kind.text(&id, name.trim()))?;
        output::say(format_args!("wrote {}", paths::shown(&path)));
        let tests = path.with_file_name(format!("{id}{}", model::trial::ENDINGS[0]));
        // Tests that are there already may be those of an automation that was deleted: they are for a person to look at.
        if !tests.exists() {
            scaffold::create(&tests, &kind.tests(&id))?;
            output::say(format_args!("wrote {}", paths::shown(&tests)));
        }
        output::say(format_args!("\nNext:\n  {}", paint(STRONG, kind.next.replace("{id}", id.as_str()))));
        Ok(Exit::Done)
    }
}

fn ask_name() -> anyhow::Result<String> {
    if !output::can_ask() {
        return Err(Fault::usage(
            "give the name of the new automation: `cogwork new NAME --trigger webhook`",
        ));
    }
    loop {
        match output::ask("What is it called?")? {
            Some(name) if AutomationId::suggest(&name).is_some() => return Ok(name),
            Some(_) => output::say("It needs a letter or a digit."),
            None => return Err(Fault::usage("no name was given")),
        }
    }
}

fn ask_kind() -> anyhow::Result<&'static Kind> {
    let names = KINDS.map(|kind| kind.name).join(", ");
    if !output::can_ask() {
        return Err(Fault::usage(format!("give what starts it with `--trigger`: {names}")));
    }
    output::say("What starts it?");
    for (index, kind) in KINDS.iter().enumerate() {
        output::say(format_args!("  {}  {:<10}{}", index + 1, paint(STRONG, kind.name), kind.about));
    }
    loop {
        let Some(answer) = output::ask("Name or number:")? else {
            return Err(Fault::usage("nothing was chosen"));
        };
        let number = answer.parse::<usize>().ok().and_then(|number| KINDS.get(number.checked_sub(1)?));
        if let Some(kind) = number.or_else(|| Kind::of(&answer)) {
            return Ok(kind);
        }
        output::say(format_args!("It is one of {names}."));
    }
}
