//! The words for which a definition needs a level of the language above the first. A later word is one more row of [`WORDS`].

use model::automation::{Automation, Level, LeveledWord, Verb};
use text::diagnostic::Span;

/// A word of a level above the first.
struct Word {
    level: Level,
    /// As authors write it.
    word: &'static str,
    /// Returns the first place at which an automation uses it.
    find: fn(&Automation) -> Option<Span>,
}

/// The words, by level. A word never changes its level once it was released.
static WORDS: &[Word] = &[
    Word {
        level: Level::SECOND,
        word: "defaults",
        find: |automation| automation.declared_defaults.as_ref().map(|defaults| defaults.span),
    },
    Word { level: Level::SECOND, word: "connection: null", find: refused_connection },
];

/// Returns the first word of the highest level that an automation uses; `None` if it needs only the first level.
pub(super) fn find(automation: &Automation) -> Option<LeveledWord> {
    let used = WORDS.iter().filter_map(|word| {
        let span = (word.find)(automation)?;
        Some(LeveledWord { level: word.level, word: word.word.to_owned(), span })
    });
    // Of two words of one level the earlier row counts.
    used.reduce(|found, next| if next.level > found.level { next } else { found })
}

fn refused_connection(automation: &Automation) -> Option<Span> {
    let mut found = None;
    automation.walk(&mut |step| {
        if matches!(&step.verb, Verb::Action(call) if call.refuses_default) {
            found = found.or(Some(step.span));
        }
    });
    found
}
