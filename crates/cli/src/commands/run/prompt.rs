//! A prompt at the terminal, read line by line.

use std::io::{self, BufRead as _};

use model::action::{InputSpec, InputType};
use model::execution::{ExecutionId, WaitReason};
use runtime::Pending;
use tokio::sync::mpsc;
use value::{Map, Value};

use super::payload;
use crate::output::{self, QUIET, STRONG, paint, plain};

/// Lines of the terminal, read by a dedicated thread, since a read cannot be cancelled.
pub(super) struct Lines(mpsc::Receiver<Option<String>>);

impl Lines {
    /// Starts the reading thread, which ends with the process.
    pub(super) fn read() -> Self {
        let (send, lines) = mpsc::channel(1);
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                let line = line.ok();
                let last = line.is_none();
                if send.blocking_send(line).is_err() || last {
                    return;
                }
            }
            let _ = send.blocking_send(None);
        });
        Self(lines)
    }

    /// The next line; `None` once the input has ended. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.0.recv().await.flatten()
    }
}

/// A question with the answers so far.
pub(super) struct Prompt {
    pub(super) execution: ExecutionId,
    pending: Pending,
    option: Option<String>,
    form: Map,
    /// The number of fields prompted so far.
    asked: usize,
}

/// The next state of a prompt after a line.
pub(super) enum Next {
    /// Another line is needed.
    Ask,
    /// The answer is complete.
    Give {
        /// The chosen option.
        option: String,
        /// The values of the form.
        form: Map,
    },
}

impl Prompt {
    pub(super) fn new(execution: ExecutionId, pending: Pending) -> Self {
        Self { execution, pending, option: None, form: Map::new(), asked: 0 }
    }

    /// The step that asks.
    pub(super) fn step(&self) -> &str {
        &self.pending.step
    }

    /// Starts over.
    pub(super) fn again(&mut self) {
        (self.option, self.asked) = (None, 0);
        self.form = Map::new();
    }

    /// Prints the question; `url` is the address where it can also be answered.
    pub(super) fn show_prompt(&self, url: Option<&str>) {
        let WaitReason::Approval { message, .. } = &self.pending.on else { return };
        let url = url.map_or_else(String::new, |url| format!(", also at {url}"));
        output::say(format_args!("{} asks{url}", paint(STRONG, plain(self.step()))));
        for line in message.trim().lines() {
            output::say(format_args!("  {}", plain(line)));
        }
        self.choose();
    }

    fn choose(&self) {
        let WaitReason::Approval { options, .. } = &self.pending.on else { return };
        for (index, option) in options.iter().enumerate() {
            output::say(format_args!("    {}  {}", paint(STRONG, index + 1), plain(option)));
        }
        self.ask();
    }

    /// Prompts for the next value.
    pub(super) fn ask(&self) {
        let Some(field) = self.field() else { return output::prompt("answer:") };
        let about = field.description.as_deref().map(|about| format!("; {}", plain(about)));
        let default = field.default.as_ref().map(|value| format!("; else {}", plain(&value.to_json())));
        let must = if field.required { ", required" } else { "" };
        let (kind, default, about) =
            (field.kind.describe(), default.unwrap_or_default(), about.unwrap_or_default());
        let hint = format!("({}{must}{default}{about})", plain(&kind));
        output::prompt(&format!("  {} {}:", plain(&field.name), paint(QUIET, hint)));
    }

    /// The prompted field; `None` while the option is prompted.
    fn field(&self) -> Option<&InputSpec> {
        self.option.as_ref().and_then(|_| self.pending.form.get(self.asked))
    }

    /// Accepts a line; an invalid line is prompted again.
    pub(super) fn take(&mut self, line: &str) -> Next {
        match self.read(line.trim()) {
            Ok(()) => {}
            Err(wrong) => output::say(format_args!("  {}", plain(&wrong))),
        }
        match (&self.option, self.field()) {
            (Some(option), None) => Next::Give { option: option.clone(), form: self.form.clone() },
            _ => Next::Ask,
        }
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let WaitReason::Approval { options, .. } = &self.pending.on else { return Ok(()) };
        if self.option.is_none() {
            let number = line.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
            let named = options.iter().find(|option| option.eq_ignore_ascii_case(line));
            let option = options.iter().find(|option| *option == line).or(named).or(number);
            let wrong = || format!("type its number or its name: {}", options.join(", "));
            self.option = Some(option.ok_or_else(wrong)?.clone());
            return Ok(());
        }
        let Some(field) = self.field() else { return Ok(()) };
        if line.is_empty() && field.required && field.default.is_none() {
            return Err("it is required".to_owned());
        }
        if !line.is_empty() {
            let (name, value) = (field.name.clone(), value(&field.kind, line));
            self.form.insert(name, connector::convert_value(&field.kind, &value)?);
        }
        self.asked += 1;
        Ok(())
    }
}

/// Parses a line by its type.
fn value(kind: &InputType, line: &str) -> Value {
    match (kind, line.to_ascii_lowercase().as_str()) {
        (InputType::Boolean, "y" | "yes") => Value::from(true),
        (InputType::Boolean, "n" | "no") => Value::from(false),
        _ => payload::value(Some(kind), line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, kind: InputType, required: bool) -> InputSpec {
        InputSpec { name: name.into(), kind, required, default: None, description: None }
    }

    fn prompt(form: Vec<InputSpec>) -> Prompt {
        let execution = ExecutionId::from_bytes([1; 16]);
        let on = WaitReason::Approval {
            message: "Go on?".into(),
            options: vec!["yes".into(), "2".into(), "no".into()],
        };
        let pending = Pending {
            execution,
            automation: model::AutomationId::parse("a").expect("an id"),
            automation_name: "A".into(),
            step: "ask".into(),
            since: jiff::Timestamp::UNIX_EPOCH,
            until: None,
            on,
            form,
        };
        Prompt::new(execution, pending)
    }

    fn check(form: Vec<InputSpec>, lines: &[&str], expected: Option<(&str, &str)>) {
        let mut prompt = prompt(form);
        let mut given = None;
        for line in lines {
            assert!(given.is_none(), "{lines:?}");
            if let Next::Give { option, form } = prompt.take(line) {
                given = Some((option, Value::from(form).to_json()));
            }
        }
        let given = given.as_ref().map(|(option, form)| (option.as_str(), form.as_str()));
        assert_eq!(given, expected, "{lines:?}");
    }

    #[test]
    fn an_option_is_chosen_by_its_name_or_its_number() {
        check(Vec::new(), &["yes"], Some(("yes", "{}")));
        check(Vec::new(), &[" YES "], Some(("yes", "{}")));
        check(Vec::new(), &["3"], Some(("no", "{}")));
        // An option whose name is a number is chosen by its name.
        check(Vec::new(), &["2"], Some(("2", "{}")));
        check(Vec::new(), &["", "perhaps", "0", "4"], None);
    }

    #[test]
    fn form_fields_are_prompted_in_order() {
        let form = || {
            vec![
                field("reason", InputType::Text, true),
                field("count", InputType::integer(), false),
                field("loud", InputType::Boolean, false),
            ]
        };
        check(form(), &["yes", "", "007", "many", "", "y"], Some(("yes", r#"{"reason":"007","loud":true}"#)));
        check(form(), &["yes", "x", "7", "false"], Some(("yes", r#"{"reason":"x","count":7,"loud":false}"#)));
        check(form(), &["yes", "x"], None);
    }
}
