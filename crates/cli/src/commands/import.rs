//! `cogwork import`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand as Choice};
use connector::ImportOptions;

use super::Subcommand;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, STRONG, paint};
use crate::paths;
use crate::scaffold;

const EXAMPLES: &str = "\
Examples:
  cogwork import openapi shop.json                          writes connectors/<name>.yaml
  cogwork import openapi shop.yaml --name shop --tag orders
  cogwork import openapi shop.json --operation listOrders --print";

/// The maximum size of a document, in bytes.
const MAX_DOCUMENT: u64 = 64 << 20;

/// Make a connector from the API description of a service
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    /// Make a connector from an OpenAPI document (2.0, 3.0, 3.1; JSON or YAML)
    #[command(after_help = EXAMPLES)]
    Openapi(Openapi),
}

#[derive(Args, Debug)]
struct Openapi {
    /// The document
    file: PathBuf,
    /// The name before the dot in `shop.listOrders`; default: from the document's title
    #[arg(long)]
    name: Option<String>,
    /// Only operations with this tag; can be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only this operation, by its operationId or the name of its action; can be repeated
    #[arg(long = "operation", value_name = "NAME")]
    operations: Vec<String>,
    /// Print the manifest instead of writing it
    #[arg(long)]
    print: bool,
}

impl Subcommand for Import {
    const NAME: &'static str = "import";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let Command::Openapi(wanted) = self.what;
        let document = read(&wanted.file)?;
        let options = ImportOptions { name: wanted.name, tags: wanted.tags, operations: wanted.operations };
        let imported = connector::openapi(&document, &options)
            .map_err(|words| anyhow::anyhow!("{}: {words}", wanted.file.display()))?;
        let text = format!(
            "# yaml-language-server: $schema=../schemas/connector.schema.json\n\
             #\n\
             # Made by `cogwork import openapi`. It is yours now: take away what you do not need, give lists their `paging`,\n\
             # write better examples. `cogwork connectors test {}` says whether they are right.\n{}",
            imported.name,
            serde_yaml::to_string(&imported.manifest).context("a manifest has a YAML form")?
        );
        for note in &imported.notes {
            output::warn(note);
        }
        let actions = output::count(imported.actions, "action");
        if wanted.print {
            output::raw(text.as_bytes())?;
            output::say(actions);
            return Ok(Exit::Done);
        }
        let path = context.dir().join("connectors").join(format!("{}.yaml", imported.name));
        scaffold::create(&path, &text)?;
        output::say(format_args!("wrote {} with {actions}", paths::shown(&path)));
        let next = format!("cogwork connectors show {}", imported.name);
        output::say(format_args!("\nNext:\n  {}", paint(STRONG, next)));
        Ok(Exit::Done)
    }
}

/// Reads a document, as JSON or as YAML.
pub(super) fn read(path: &Path) -> anyhow::Result<serde_json::Value> {
    let shown = path.display();
    let size = fs::metadata(path).with_context(|| format!("`{shown}` cannot be read"))?.len();
    if size > MAX_DOCUMENT {
        return Err(CommandError::usage(format!("`{shown}` is larger than {} MiB", MAX_DOCUMENT >> 20)));
    }
    let text = fs::read_to_string(path).with_context(|| format!("`{shown}` cannot be read"))?;
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(&text)
            .with_context(|| format!("`{shown}` is not JSON that can be read"));
    }
    serde_yaml::from_str(&text).with_context(|| format!("`{shown}` is not YAML that can be read"))
}
