//! A new project folder.

use std::fmt::Write as _;

use catalog::Catalog;

use crate::schemas::SCHEMAS;
use crate::settings::SETTINGS;

const HELLO: &str = "\
# yaml-language-server: $schema=../schemas/automation.schema.json
#
# One file is one automation: a trigger and a list of steps.
#   cogwork run hello --input name=Ada
name: Hello
description: Greets somebody.

# A person starts this one. `cogwork new` creates one with another trigger.
trigger:
  manual: {}

# Its inputs. This one is optional, because it has a default.
inputs:
  name: {type: text, default: world, description: Who is greeted}

# The steps run from top to bottom. ${{ }} holds an expression, evaluated when the step runs.
steps:
  - id: greet
    set:
      greeting: Hello, ${{ inputs.name }}!
  - id: note
    action: log.info
    with:
      message: ${{ vars.greeting }}

# The result; by default it is the result of the last step.
outputs:
  greeting: ${{ vars.greeting }}
";

const HELLO_TESTS: &str = "\
# yaml-language-server: $schema=../schemas/test.schema.json
#
# Tests of hello.yaml. They call no other system and take no real time:
#   cogwork test
tests:
  - name: it greets by name
    inputs: {name: Ada}
    expect:
      result: {greeting: \"Hello, Ada!\"}
      logs: [\"Hello, Ada!\"]

  - name: without a name it greets the world
    expect:
      result: {greeting: \"Hello, world!\"}
";

const GITIGNORE: &str = "\
# The data of the daemon: the store, the admin token.
.cogwork/
# Secrets, one file each.
secrets/
";

const CONNECTIONS: &str = "\
# Connections

A connection is a file here with named credentials. Steps use it by the file's name.

```yaml
# connections/mainWiki.yaml
# yaml-language-server: $schema=../schemas/connection.schema.json
type: wiki.basic
with:
  email: ops@example.com
  apiToken: ${{ secrets.wikiToken }}
  host: https://acme.example.com
```

`secrets.wikiToken` is the value of `cogwork secrets set wikiToken`, of the file `secrets/wikiToken`, or of the variable `COGWORK_SECRET_WIKI_TOKEN`. Secrets are read
when a step runs, so a new one applies at once. Never put them into this folder.

`cogwork connectors list` shows the connectors.
";

/// The files of a new project folder, by path, with schemas for this catalog. The settings file lists every setting in a comment.
///
/// # Errors
/// A schema has no JSON form, which would be a bug.
pub(crate) fn files(catalog: &Catalog) -> anyhow::Result<Vec<(String, String)>> {
    let mut files = vec![
        ("automations/hello.yaml".to_owned(), HELLO.to_owned()),
        ("automations/hello.test.yaml".to_owned(), HELLO_TESTS.to_owned()),
        ("connections/README.md".to_owned(), CONNECTIONS.to_owned()),
        ("cogwork.yaml".to_owned(), settings()),
        (".gitignore".to_owned(), GITIGNORE.to_owned()),
    ];
    for schema in SCHEMAS {
        files.push((schema.path(), schema.text(catalog)?));
    }
    Ok(files)
}

/// A settings file that lists every setting in a comment, with its default or an example.
fn settings() -> String {
    let mut text = String::from(
        "# yaml-language-server: $schema=schemas/settings.schema.json\n\
         #\n\
         # The settings of this project. Everything has a default; remove the `#` of a setting to change it.\n\
         # Each one also has a variable (outbound.allow: COGWORK_OUTBOUND_ALLOW) and a flag (--outbound-allow),\n\
         # which override this file.\n",
    );
    let mut group = "";
    for setting in SETTINGS {
        let (about, example) = (setting.about, setting.sample.text());
        match setting.key.split_once('.') {
            None => {
                let _ = write!(text, "\n# {about}\n#{}: {example}\n", setting.key);
            }
            Some((outer, key)) => {
                if outer != group {
                    let _ = write!(text, "\n#{outer}:\n");
                    group = outer;
                }
                let _ = write!(text, "#  # {about}\n#  {key}: {example}\n");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;

    #[test]
    fn the_settings_file_of_a_new_project_names_every_setting_and_sets_none() {
        let text = settings();
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
        for setting in SETTINGS {
            let key = setting.key.rsplit('.').next().unwrap_or_default();
            assert!(text.contains(&format!("{key}: {}", setting.sample.text())), "{}", setting.key);
        }
    }

    #[test]
    fn the_settings_file_is_valid_when_uncommented() {
        let dir = tempfile::tempdir().expect("a folder");
        let uncomment = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') || rest.starts_with("  ") => rest.to_owned(),
            _ => line.to_owned(),
        };
        let text: Vec<String> = settings().lines().map(uncomment).collect();
        std::fs::write(dir.path().join("cogwork.yaml"), text.join("\n")).expect("written");
        let report = crate::settings::check(dir.path()).expect("read");
        assert!(report.is_none(), "{}", report.map(|report| report.render(false)).unwrap_or_default());
    }
}
