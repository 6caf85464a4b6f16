//! The pages of a resume address: plain HTML, for any browser, without script.
//!
//! Texts of authors and of people are put in as texts, never as markup (maud escapes them).

mod field;
mod words;

use engine::Pending;
use http::StatusCode;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::Status;
use model::execution::WaitReason;

use super::Fault;
use super::asked::End;
use super::given::{Form, OPTION};
use super::scene::{Closed, Focus, SHOWN, Scene};

/// The style sheet, which stands in every page.
pub(super) const STYLE: &str = include_str!("style.css");

/// What was filled in and could not be taken, to be mended.
pub(super) struct Draft {
    /// For which step, where that is known.
    pub(super) step: Option<String>,
    pub(super) form: Form,
    /// Why not.
    pub(super) fault: Fault,
}

/// The address of a step, relative to the page's own.
type Link<'l> = &'l dyn Fn(&str) -> String;

/// The page of an execution.
pub(super) fn scene(scene: &Scene, focus: &Focus<'_>, link: Link<'_>, draft: Option<&Draft>) -> Markup {
    // What does not belong to a question that is still shown stands above all.
    let open =
        |step: &str| matches!(focus, Focus::Open(open) if open.iter().any(|pending| pending.step == step));
    let astray = draft.filter(|draft| !draft.step.as_deref().is_some_and(open));
    let content = html! {
        @if let Some(draft) = astray { (problem(&draft.fault)) }
        @match focus {
            Focus::Open(open) => (questions(scene, open, link, draft)),
            Focus::Events(events) => (waits_for(scene, events)),
            Focus::Closed(closed) => (ended(scene, closed)),
            Focus::Nothing => (nothing(scene)),
            Focus::Unknown => {
                h1 { "There is no such question" }
                p { "This execution asks nothing under this address. It may be cut off; copy the whole of it." }
            }
        }
    };
    document(&title(scene, focus), Some(&scene.name), &content)
}

/// The page of a request that leads nowhere.
pub(super) fn fault(fault: &Fault) -> Markup {
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
        @if text.is_empty() { p { (words::ticked(&fault.message)) } } @else { p { (text) } }
    };
    document(heading, None, &content)
}

/// A page that tells something and asks nothing.
pub(super) fn notice(heading: &str, text: &str) -> Markup {
    document(heading, None, &html! { h1 { (heading) } p { (words::ticked(text)) } })
}

fn title(scene: &Scene, focus: &Focus<'_>) -> String {
    let what = match focus {
        Focus::Open(open) if open.len() == 1 => match &open[0].on {
            WaitReason::Approval { message, .. } => words::headline(message).0,
            _ => String::new(),
        },
        Focus::Open(open) => words::count(open.len(), "question"),
        Focus::Closed(closed) if matches!(closed.first(), Some(Closed { end: End::Answered { .. }, .. })) => {
            "Answered".to_owned()
        }
        Focus::Events(_) => "Waiting".to_owned(),
        _ => "Nothing to answer".to_owned(),
    };
    format!("{what} · {}", scene.name)
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
                main {
                    @if let Some(name) = name { p.source dir="auto" { (words::cut(name)) } }
                    (content)
                }
            }
        }
    }
}

fn questions(scene: &Scene, open: &[&Pending], link: Link<'_>, draft: Option<&Draft>) -> Markup {
    html! {
        @if let [only] = open {
            (question(scene.now, only, 0, link, draft))
            @let others = scene.questions() - 1;
            @if others > 0 { p.aside { (words::count(others, "more question")) " of this execution " (if others == 1 { "waits" } else { "wait" }) " for an answer." } }
        } @else {
            h1 { (words::count(open.len(), "question")) }
            p { "Each is answered for itself." }
            @for (index, pending) in open.iter().take(SHOWN).enumerate() {
                (question(scene.now, pending, index + 1, link, draft))
            }
            @if open.len() > SHOWN { p.aside { (words::count(open.len() - SHOWN, "more question")) " will be shown once some of these are answered." } }
        }
    }
}

/// A question with its form; `number` is its place on the page, 0 where it stands alone.
fn question(
    now: Timestamp,
    pending: &Pending,
    number: usize,
    link: Link<'_>,
    draft: Option<&Draft>,
) -> Markup {
    let WaitReason::Approval { message, options } = &pending.on else { return html! {} };
    let draft = draft.filter(|draft| draft.step.as_ref() == Some(&pending.step));
    let (headline, rest) = words::headline(message);
    let heading = format!("q{number}");
    html! {
        section aria-labelledby=(heading) {
            @if number == 0 { h1 #(heading) dir="auto" { (headline) } } @else { h2 #(heading) dir="auto" { (headline) } }
            @if let Some(rest) = rest { p.more dir="auto" { (rest) } }
            (since(now, pending))
            @if let Some(draft) = draft { (problem(&draft.fault)) }
            form method="post" action=(link(&pending.step)) {
                // The enter key presses a form's first button. This one does nothing, so that nobody answers by accident.
                button type="submit" disabled hidden aria-hidden="true" tabindex="-1" {}
                @for (index, input) in pending.form.iter().enumerate() {
                    (field::field(input, &format!("{heading}f{index}"), draft.map(|draft| &draft.form)))
                }
                div.options role="group" aria-label="Your answer" {
                    @for option in options {
                        button type="submit" name=(OPTION) value=(option) dir="auto" { (words::capital(option)) }
                    }
                }
            }
        }
    }
}

/// Since when and until when a step waits.
fn since(now: Timestamp, pending: &Pending) -> Markup {
    html! {
        p.when {
            "Asked " (words::ago(now, pending.since)) ", on " (words::instant(pending.since)) "."
            @if let Some(until) = pending.until {
                " " strong { "Open for another " (words::span(now, until)) "," } " until " (words::instant(until)) "."
            }
        }
    }
}

fn problem(fault: &Fault) -> Markup {
    html! {
        div.problem role="alert" {
            p { strong { "Your answer was not taken: " } (words::ticked(&fault.message)) "." }
        }
    }
}

fn waits_for(scene: &Scene, events: &[&Pending]) -> Markup {
    html! {
        h1 { "Nothing for you to answer" }
        p { "This waits for another system to send something to this address." }
        dl {
            @for pending in events.iter().take(SHOWN) {
                @if let WaitReason::Event { name } = &pending.on {
                    div {
                        dt { "Event" }
                        dd { code dir="auto" { (words::cut(name)) } }
                        dt { "Since" }
                        dd { (words::instant(pending.since)) }
                        @if let Some(until) = pending.until {
                            dt { "Until" }
                            dd { (words::instant(until)) ", for another " (words::span(scene.now, until)) }
                        }
                    }
                }
            }
        }
    }
}

fn ended(scene: &Scene, closed: &[Closed<'_>]) -> Markup {
    let others = scene.questions();
    html! {
        @if let [only] = closed {
            (outcome(scene.now, only, true))
        } @else {
            h1 { (words::count(closed.len(), "question")) ", none of them open" }
            @for closed in closed.iter().take(SHOWN) { (outcome(scene.now, closed, false)) }
        }
        @if others > 0 {
            p { "Of the same execution, " (words::count(others, "other question")) (if others == 1 { " still waits" } else { " still wait" }) " for an answer." }
        } @else {
            p.aside { (standing(scene)) " You can close this page." }
        }
    }
}

/// A question that is over, with what became of it.
fn outcome(now: Timestamp, closed: &Closed<'_>, alone: bool) -> Markup {
    let (headline, rest) = words::headline(&closed.question.message);
    let (class, badge) = match closed.end {
        End::Answered { .. } => ("badge good", "Answered"),
        End::TimedOut => ("badge late", "Time is up"),
        End::Over => ("badge", "No longer asked"),
    };
    html! {
        section {
            p class=(class) { (badge) }
            @if alone { h1 dir="auto" { (headline) } } @else { h2 dir="auto" { (headline) } }
            @if let Some(rest) = rest { p.more dir="auto" { (rest) } }
            @match closed.end {
                End::Answered { option, form } => dl {
                    div {
                        dt { "Answer" }
                        dd dir="auto" { strong { (words::capital(option)) } }
                        @for (name, value) in form.iter() {
                            @let text = field::shown(value);
                            @if !text.is_empty() {
                                dt { (words::label(name)) }
                                dd dir="auto" { (text) }
                            }
                        }
                        dt { "When" }
                        dd { (words::instant(closed.at)) ", " (words::ago(now, closed.at)) }
                    }
                },
                End::TimedOut => p { "Nobody answered in time. It was open until " (words::instant(closed.at)) "." },
                End::Over => p { "Nobody answered before it was over, on " (words::instant(closed.at)) "." },
            }
        }
    }
}

fn nothing(scene: &Scene) -> Markup {
    html! {
        h1 { "Nothing to answer" }
        p { (standing(scene)) @if !scene.status.is_terminal() { " It may ask something later, at this same address." } }
    }
}

/// How the execution stands, in a sentence.
fn standing(scene: &Scene) -> String {
    let ended = match scene.status {
        Status::Queued | Status::Running | Status::Waiting => return "It goes on by itself.".to_owned(),
        Status::Succeeded => "It has ended well",
        Status::Failed | Status::Stuck => "It has failed",
        Status::Cancelled => "It was cancelled",
    };
    let when = scene.finished_at.map(|at| format!(", {}", words::ago(scene.now, at)));
    format!("{ended}{}.", when.unwrap_or_default())
}
