//! `cogwork schema`

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;

use super::Subcommand;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output;
use crate::paths;
use crate::scaffold;
use crate::schemas::SCHEMAS;

const EXAMPLES: &str = "\
Examples:
  cogwork schema automation            print one schema
  cogwork schema --write               write all of them to schemas/
  cogwork schema --check               fail if one in schemas/ is out of date
  cogwork schema --api                 print the OpenAPI description of the admin API

The schemas contain the actions and connection types of the project, including those
in connectors/: write them again when those change. An editor with a YAML language
server then completes and explains a file that begins with
  # yaml-language-server: $schema=../schemas/automation.schema.json";

/// Print the JSON Schemas of the files, or write them to `schemas/`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Schema {
    /// The schema; default: all of them
    #[arg(value_parser = SCHEMAS.map(|schema| schema.name))]
    name: Option<String>,
    /// Write to the project's `schemas/` instead of printing
    #[arg(long)]
    write: bool,
    /// Compare with the project's `schemas/` instead of printing
    #[arg(long, conflicts_with = "write")]
    check: bool,
    /// Print the OpenAPI 3.1 description of the admin API instead
    #[arg(long, conflicts_with_all = ["name", "write", "check"])]
    api: bool,
}

impl Subcommand for Schema {
    const NAME: &'static str = "schema";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.api {
            output::raw(server::openapi().as_bytes())?;
            return Ok(Exit::Done);
        }
        let catalog = authoring::check_project(context.dir(), &[])?.catalog;
        let chosen =
            SCHEMAS.iter().filter(|schema| self.name.as_deref().is_none_or(|name| name == schema.name));
        let chosen: Vec<_> = chosen.collect();
        if self.check {
            let mut stale = false;
            for schema in chosen {
                let path = context.dir().join(schema.path());
                if fs::read_to_string(&path).ok().as_deref() != Some(&schema.text(&catalog)?) {
                    output::say(format_args!("{} is not fresh", paths::shown(&path)));
                    stale = true;
                }
            }
            if stale {
                output::say("regenerate the schemas: cogwork schema --write");
            }
            return Ok(if stale { Exit::Failed } else { Exit::Done });
        }
        if self.write {
            for schema in chosen {
                let path = context.dir().join(schema.path());
                write(&path, &schema.text(&catalog)?)?;
                output::say(format_args!("wrote {}", paths::shown(&path)));
            }
            return Ok(Exit::Done);
        }
        match chosen.as_slice() {
            [schema] => output::raw(schema.text(&catalog)?.as_bytes())?,
            _ => {
                let names = SCHEMAS.map(|schema| schema.name).join(" or ");
                return Err(CommandError::usage(format!(
                    "name one schema to print ({names}), or give --write"
                )));
            }
        }
        Ok(Exit::Done)
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    scaffold::make_parent(path)?;
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}
