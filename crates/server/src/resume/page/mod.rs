//! The pages of a resume address: plain HTML, for any browser, without script.
//!
//! Texts of authors and users are inserted as text, never as markup (maud escapes them).

mod field;
mod strings;

use http::StatusCode;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::Status;
use model::execution::WaitReason;
use runtime::Pending;

use super::ResumeError;
use super::questions::QuestionOutcome;
use super::submission::{Form, OPTION};
use super::view_model::{Closed, Focus, MAX_SHOWN, ResumeView};

/// The style sheet, inlined in every page. It has the colours of the web UI.
pub(super) const STYLE: &str =
    concat!(include_str!("../../../../../ui/src/design/tokens.css"), include_str!("style.css"));
/// The icon of the web UI.
const ICON: &str = include_str!("../../../../../ui/public/icon.svg");

/// An invalid submission, shown again for correction.
pub(super) struct RejectedSubmission {
    /// Its step, if known.
    pub(super) step: Option<String>,
    pub(super) form: Form,
    /// The reason of the rejection.
    pub(super) fault: ResumeError,
}

/// The URL of a step, relative to the page's own.
type Link<'l> = &'l dyn Fn(&str) -> String;

/// The page of an execution.
pub(super) fn view_model(
    view_model: &ResumeView,
    focus: &Focus<'_>,
    link: Link<'_>,
    draft: Option<&RejectedSubmission>,
) -> Markup {
    // An error that belongs to no visible question is shown at the top.
    let open =
        |step: &str| matches!(focus, Focus::Open(open) if open.iter().any(|pending| pending.step == step));
    let astray = draft.filter(|draft| !draft.step.as_deref().is_some_and(open));
    let content = html! {
        @if let Some(draft) = astray { (problem(&draft.fault)) }
        @match focus {
            Focus::Open(open) => (questions(view_model, open, link, draft)),
            Focus::Events(events) => (waits_for(view_model, events)),
            Focus::Closed(closed) => (ended(view_model, closed)),
            Focus::Nothing => (nothing(view_model)),
            Focus::Unknown => {
                h1 { "There is no such question" }
                p { "This execution asks nothing under this address. It may be cut off; copy the whole of it." }
            }
        }
    };
    document(&title(view_model, focus), Some(&view_model.name), &content)
}

/// The page of an invalid request.
pub(super) fn fault(fault: &ResumeError) -> Markup {
    let (heading, text) = match fault.status {
        StatusCode::NOT_FOUND => (
            "This link leads nowhere",
            "It may be cut off: copy the whole address and try again. Or what it belonged to is over and was cleared away.",
        ),
        StatusCode::TOO_MANY_REQUESTS => {
            ("One moment, please", "This address has been asked too often. Try again in a few seconds.")
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            ("Not at the moment", "Nothing was lost, and nothing was answered. Try again in a minute.")
        }
        _ => ("This did not work", ""),
    };
    let content = html! {
        h1 { (heading) }
        @if text.is_empty() { p { (strings::ticked(&fault.message)) } } @else { p { (text) } }
    };
    document(heading, None, &content)
}

/// A page with a message and no form.
pub(super) fn notice(heading: &str, text: &str) -> Markup {
    document(heading, None, &html! { h1 { (heading) } p { (strings::ticked(text)) } })
}

fn title(view_model: &ResumeView, focus: &Focus<'_>) -> String {
    let what = match focus {
        Focus::Open(open) if open.len() == 1 => match &open[0].on {
            WaitReason::Approval { message, .. } => strings::headline(message).0,
            _ => String::new(),
        },
        Focus::Open(open) => strings::count(open.len(), "question"),
        Focus::Closed(closed)
            if matches!(closed.first(), Some(Closed { end: QuestionOutcome::Answered { .. }, .. })) =>
        {
            "Answered".to_owned()
        }
        Focus::Events(_) => "Waiting".to_owned(),
        _ => "Nothing to answer".to_owned(),
    };
    format!("{what} · {}", view_model.name)
}

fn document(title: &str, name: Option<&str>, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex, nofollow";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                p.brand { span aria-hidden="true" { (PreEscaped(ICON)) } "Cogwork" }
                main {
                    @if let Some(name) = name { p.source dir="auto" { (strings::cut(name)) } }
                    (content)
                }
            }
        }
    }
}

fn questions(
    view_model: &ResumeView,
    open: &[&Pending],
    link: Link<'_>,
    draft: Option<&RejectedSubmission>,
) -> Markup {
    html! {
        @if let [single_open] = open {
            (question(view_model.now, single_open, 0, link, draft))
            @let others = view_model.questions() - 1;
            @if others > 0 { p.aside { (strings::count(others, "more question")) " of this execution " (if others == 1 { "waits" } else { "wait" }) " for an answer." } }
        } @else {
            h1 { (strings::count(open.len(), "question")) }
            p { "Each is answered for itself." }
            @for (index, pending) in open.iter().take(MAX_SHOWN).enumerate() {
                (question(view_model.now, pending, index + 1, link, draft))
            }
            @if open.len() > MAX_SHOWN { p.aside { (strings::count(open.len() - MAX_SHOWN, "more question")) " will be shown once some of these are answered." } }
        }
    }
}

/// A question with its form; `number` is its position on the page, 0 if it is the only one.
fn question(
    now: Timestamp,
    pending: &Pending,
    number: usize,
    link: Link<'_>,
    draft: Option<&RejectedSubmission>,
) -> Markup {
    let WaitReason::Approval { message, options } = &pending.on else { return html! {} };
    let draft = draft.filter(|draft| draft.step.as_ref() == Some(&pending.step));
    let (headline, rest) = strings::headline(message);
    let heading = format!("q{number}");
    html! {
        section aria-labelledby=(heading) {
            @if number == 0 { h1 #(heading) dir="auto" { (headline) } } @else { h2 #(heading) dir="auto" { (headline) } }
            @if let Some(rest) = rest { p.more dir="auto" { (rest) } }
            (since(now, pending))
            @if let Some(draft) = draft { (problem(&draft.fault)) }
            form method="post" action=(link(&pending.step)) {
                // The enter key presses a form's first button. This one does nothing, to prevent accidental answers.
                button type="submit" disabled hidden aria-hidden="true" tabindex="-1" {}
                @for (index, input) in pending.form.iter().enumerate() {
                    (field::field(input, &format!("{heading}f{index}"), draft.map(|draft| &draft.form)))
                }
                div.options role="group" aria-label="Your answer" {
                    @for option in options {
                        button type="submit" name=(OPTION) value=(option) dir="auto" { (strings::capital(option)) }
                    }
                }
            }
        }
    }
}

/// The start and the deadline of a step's wait.
fn since(now: Timestamp, pending: &Pending) -> Markup {
    html! {
        p.when {
            "Asked " (strings::ago(now, pending.since)) ", on " (strings::instant(pending.since)) "."
            @if let Some(until) = pending.until {
                " " strong { "Open for another " (strings::span(now, until)) "," } " until " (strings::instant(until)) "."
            }
        }
    }
}

fn problem(fault: &ResumeError) -> Markup {
    html! {
        div.problem role="alert" {
            p { strong { "Your answer was not taken: " } (strings::ticked(&fault.message)) "." }
        }
    }
}

fn waits_for(view_model: &ResumeView, events: &[&Pending]) -> Markup {
    html! {
        h1 { "Nothing for you to answer" }
        p { "This waits for another system to send something to this address." }
        dl {
            @for pending in events.iter().take(MAX_SHOWN) {
                @if let WaitReason::Event { name } = &pending.on {
                    div {
                        dt { "Event" }
                        dd { code dir="auto" { (strings::cut(name)) } }
                        dt { "Since" }
                        dd { (strings::instant(pending.since)) }
                        @if let Some(until) = pending.until {
                            dt { "Until" }
                            dd { (strings::instant(until)) ", for another " (strings::span(view_model.now, until)) }
                        }
                    }
                }
            }
        }
    }
}

fn ended(view_model: &ResumeView, closed: &[Closed<'_>]) -> Markup {
    let others = view_model.questions();
    html! {
        @if let [single_open] = closed {
            (outcome(view_model.now, single_open, true))
        } @else {
            h1 { (strings::count(closed.len(), "question")) ", none of them open" }
            @for closed in closed.iter().take(MAX_SHOWN) { (outcome(view_model.now, closed, false)) }
        }
        @if others > 0 {
            p { "Of the same execution, " (strings::count(others, "other question")) (if others == 1 { " still waits" } else { " still wait" }) " for an answer." }
        } @else {
            p.aside { (queue_status(view_model)) " You can close this page." }
        }
    }
}

/// A closed question with its outcome.
fn outcome(now: Timestamp, closed: &Closed<'_>, alone: bool) -> Markup {
    let (headline, rest) = strings::headline(&closed.question.message);
    let (class, badge) = match closed.end {
        QuestionOutcome::Answered { .. } => ("badge good", "Answered"),
        QuestionOutcome::TimedOut => ("badge late", "Time is up"),
        QuestionOutcome::Superseded => ("badge", "No longer asked"),
    };
    html! {
        section {
            p class=(class) { (badge) }
            @if alone { h1 dir="auto" { (headline) } } @else { h2 dir="auto" { (headline) } }
            @if let Some(rest) = rest { p.more dir="auto" { (rest) } }
            @match closed.end {
                QuestionOutcome::Answered { option, form } => dl {
                    div {
                        dt { "Answer" }
                        dd dir="auto" { strong { (strings::capital(option)) } }
                        @for (name, value) in form.iter() {
                            @let text = field::shown(value);
                            @if !text.is_empty() {
                                dt { (strings::label(name)) }
                                dd dir="auto" { (text) }
                            }
                        }
                        dt { "When" }
                        dd { (strings::instant(closed.at)) ", " (strings::ago(now, closed.at)) }
                    }
                },
                QuestionOutcome::TimedOut => p { "Nobody answered in time. It was open until " (strings::instant(closed.at)) "." },
                QuestionOutcome::Superseded => p { "Nobody answered before it was over, on " (strings::instant(closed.at)) "." },
            }
        }
    }
}

fn nothing(view_model: &ResumeView) -> Markup {
    html! {
        h1 { "Nothing to answer" }
        p { (queue_status(view_model)) @if !view_model.status.is_terminal() { " It may ask something later, at this same address." } }
    }
}

/// The status of the execution in a sentence.
fn queue_status(view_model: &ResumeView) -> String {
    let ended = match view_model.status {
        Status::Queued | Status::Running | Status::Waiting => return "It continues by itself.".to_owned(),
        Status::Succeeded => "It has ended well",
        Status::Failed | Status::Stuck => "It has failed",
        Status::Cancelled => "It was cancelled",
    };
    let when = view_model.finished_at.map(|at| format!(", {}", strings::ago(view_model.now, at)));
    format!("{ended}{}.", when.unwrap_or_default())
}
