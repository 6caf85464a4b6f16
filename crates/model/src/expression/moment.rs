//! Where and when an expression is evaluated, for the functions that ask: `now()` and `uuid()`.

use jiff::Timestamp;
use uuid::Uuid;

/// What an expression may ask of where it is evaluated. Whoever gives it sees to it that a step that is evaluated again
/// gets the same.
pub trait Moment: Send + Sync + 'static {
    /// The instant.
    fn now(&self) -> Timestamp;

    /// The next UUID.
    fn uuid(&self) -> Uuid;

    /// The number of UUIDs drawn so far.
    fn drawn(&self) -> u32;

    /// Draws again from this number on, for an evaluation that begins again.
    fn draw_again_from(&self, drawn: u32);
}
