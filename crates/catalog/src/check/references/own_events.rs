//! Finds executions that wait for an event which they have sent themselves before. Code: `own-event`.

use expression::Template;
use model::automation::{Step, Verb, WaitOn};
use text::diagnostic::Diagnostic;
use value::Value;

use super::Checker;
use super::step_order::Availability;

impl Checker<'_> {
    /// Warns of a `waitFor` behind an `events.emit` of the same name: an execution does not receive its own events.
    pub(super) fn own_events(&mut self) {
        let mut sent: Vec<(&Step, &Template)> = Vec::new();
        let mut awaited: Vec<(&Step, &Template)> = Vec::new();
        self.automation.walk(&mut |step| match &step.verb {
            Verb::Action(call) if call.action.name == "events.emit" => {
                let name = call.with.iter().find(|(input, _)| input.name == "name");
                sent.extend(name.map(|(_, name)| (step, name)));
            }
            Verb::WaitFor(wait) => {
                if let WaitOn::Event { name, .. } = &wait.on {
                    awaited.push((step, name));
                }
            }
            _ => {}
        });
        for (waiting, name) in awaited {
            let is_before = |sender: &Step| {
                let paths = (self.order.path_of(&waiting.id), self.order.path_of(&sender.id));
                let (Some(reader), Some(target)) = paths else { return false };
                let availability = self.order.availability_to(reader, false, target);
                matches!(availability, Availability::Always | Availability::Maybe(_))
            };
            let Some((sender, _)) = sent.iter().find(|(sender, sent)| *sent == name && is_before(sender))
            else {
                continue;
            };
            let shown = match name {
                Template::Literal(Value::String(name)) => format!("`{name}`"),
                _ => "this event".to_owned(),
            };
            let source = &self.automation.source;
            let span = language::load::step_key_span(source, waiting.span, "waitFor").unwrap_or(waiting.span);
            let message = format!(
                "an execution does not receive its own events: that `{}` sends {shown} does not end this pause",
                sender.id
            );
            let diagnostic = Diagnostic::warning("own-event", message, span)
                .related(sender.span, "it is sent here")
                .help(
                    "take another name for the answer that is awaited, or let another automation send it; to go on at once, remove \
                     the `waitFor`",
                );
            self.found.push(diagnostic.step(waiting.id.as_ref()));
        }
    }
}
