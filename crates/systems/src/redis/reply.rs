//! The bytes that a server sends, on their way to the client: replies of RESP 2 within limits. A text that does not fit is cut, so that a
//! large value is an error of its own, and not one of the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// The largest value, in bytes.
pub(super) const MAX_VALUE: usize = 8 << 20;
/// The bytes of texts that one reply keeps: a value of that size, with names and ids.
const MAX_TEXTS: usize = MAX_VALUE + (64 << 10);
/// The part of a text that is always kept, in bytes: an id is shorter, so that an entry without room can be read again.
const MIN_TEXT: usize = 64;
/// The largest text that is waited for, in bytes, of which the rest is skipped.
const MAX_SKIPPED: u64 = 1 << 30;
/// The longest line, in bytes.
const MAX_LINE: usize = 64 << 10;
/// The largest number of values in one reply, without the ones that are skipped.
const MAX_ITEMS: u64 = 100_000;
/// The number of values beyond which a list within a reply is skipped. The rest is for the lists around it.
const MAX_LISTED: u64 = 90_000;
/// The largest number of values of a list that is skipped.
const MAX_SKIPPED_ITEMS: u64 = 10_000_000;
/// The deepest nesting of lists.
const MAX_DEPTH: usize = 8;
/// The bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// A stream whose arriving replies have limits. A text of `n` bytes that is cut arrives as the list `[n, the bytes that are kept]`, a form
/// that no command returns where a text is expected. A list of `n` values within a reply that is skipped arrives as `[n, an empty text]`.
pub(super) struct Limited<S> {
    stream: S,
    replies: Replies,
    /// The bytes that the client has not read yet, from this position on.
    ready: Vec<u8>,
    position: usize,
}

impl<S> Limited<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, replies: Replies::default(), ready: Vec::new(), position: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.position >= this.ready.len() {
            let mut chunk = [0; CHUNK];
            let mut arrived = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut arrived))?;
            if arrived.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.ready.clear();
            this.position = 0;
            this.replies.pass(arrived.filled(), &mut this.ready)?;
        }
        let left = this.ready.get(this.position..).unwrap_or_default();
        let part = left.get(..buffer.remaining()).unwrap_or(left);
        buffer.put_slice(part);
        this.position += part.len();
        Poll::Ready(Ok(()))
    }
}

/// The position within the replies. Invariant: `items`, `skipped` and `texts` count the values and the bytes of texts of one reply.
#[derive(Default)]
struct Replies {
    line: Vec<u8>,
    /// The text that arrives.
    text: Option<Text>,
    /// The values that are missing from each open list.
    open: Vec<u64>,
    /// The number of lists around the list that is skipped.
    skips: Option<usize>,
    items: u64,
    skipped: u64,
    texts: usize,
}

/// A text that arrives, with its line end.
struct Text {
    keep: usize,
    left: u64,
}

impl Replies {
    /// Passes arriving bytes on.
    ///
    /// # Errors
    /// They break the protocol or a limit.
    fn pass(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = match &self.text {
                Some(_) => self.pass_text(bytes, out),
                None => self.pass_line(bytes, out)?,
            };
        }
        Ok(())
    }

    /// Passes a part of a text on, and returns the bytes behind it.
    fn pass_text<'b>(&mut self, bytes: &'b [u8], out: &mut Vec<u8>) -> &'b [u8] {
        let Some(text) = &mut self.text else { return bytes };
        let count = usize::try_from(text.left).unwrap_or(usize::MAX).min(bytes.len());
        let (part, behind) = bytes.split_at(count);
        let kept = part.get(..text.keep).unwrap_or(part);
        out.extend_from_slice(kept);
        text.keep -= kept.len();
        text.left = text.left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        if text.left == 0 {
            if self.skips.is_none() {
                out.extend_from_slice(b"\r\n");
            }
            self.text = None;
            self.end_value();
        }
        behind
    }

    /// Passes a line on once it is complete, and returns the bytes behind it.
    fn pass_line<'b>(&mut self, bytes: &'b [u8], out: &mut Vec<u8>) -> io::Result<&'b [u8]> {
        let end = memchr::memchr(b'\n', bytes).map(|end| end + 1);
        let (part, behind) = bytes.split_at(end.unwrap_or(bytes.len()));
        if self.line.len().saturating_add(part.len()) > MAX_LINE {
            return Err(broken("a line of its reply is longer than 64 KiB"));
        }
        self.line.extend_from_slice(part);
        if self.line.first().is_some_and(|kind| !b"+-:$*".contains(kind)) {
            return Err(no_protocol());
        }
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            self.take_line(line.strip_suffix(b"\r\n").ok_or_else(no_protocol)?, out)?;
        }
        Ok(behind)
    }

    fn take_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let (kind, rest) = line.split_first().ok_or_else(no_protocol)?;
        self.count()?;
        let number = || -> io::Result<i64> {
            std::str::from_utf8(rest).ok().and_then(|text| text.parse().ok()).ok_or_else(no_protocol)
        };
        match kind {
            b'$' => match u64::try_from(number()?) {
                Ok(size) => return self.begin_text(size, out),
                Err(_) => self.put(b"$-1\r\n", out),
            },
            b'*' => match u64::try_from(number()?) {
                Ok(count @ 1..) => return self.begin_list(count, out),
                _ => self.put(&[line, b"\r\n"].concat(), out),
            },
            _ => self.put(&[line, b"\r\n"].concat(), out),
        }
        self.end_value();
        Ok(())
    }

    /// Counts a value that begins.
    fn count(&mut self) -> io::Result<()> {
        let (count, most) = match self.skips {
            None => (&mut self.items, MAX_ITEMS),
            Some(_) => (&mut self.skipped, MAX_SKIPPED_ITEMS),
        };
        *count += 1;
        if *count > most { Err(broken("a reply has too many values")) } else { Ok(()) }
    }

    /// Passes bytes on that are not skipped.
    fn put(&self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.skips.is_none() {
            out.extend_from_slice(bytes);
        }
    }

    fn begin_list(&mut self, count: u64, out: &mut Vec<u8>) -> io::Result<()> {
        if self.open.len() >= MAX_DEPTH || count > MAX_SKIPPED_ITEMS {
            return Err(broken("a reply has too many values, or too deep lists"));
        }
        let has_room = self.items.saturating_add(count) <= MAX_LISTED;
        if has_room || self.skips.is_some() {
            self.put(format!("*{count}\r\n").as_bytes(), out);
        } else if self.open.is_empty() {
            return Err(broken("a reply has too many values"));
        } else {
            self.put(format!("*2\r\n:{count}\r\n$0\r\n\r\n").as_bytes(), out);
            self.skips = Some(self.open.len());
        }
        self.open.push(count);
        Ok(())
    }

    fn begin_text(&mut self, size: u64, out: &mut Vec<u8>) -> io::Result<()> {
        if size > MAX_SKIPPED {
            return Err(broken("a value is larger than 1 GiB"));
        }
        if self.skips.is_some() {
            self.text = Some(Text { keep: 0, left: size + 2 });
            return Ok(());
        }
        let room = MAX_TEXTS.saturating_sub(self.texts).max(MIN_TEXT);
        let keep = usize::try_from(size).unwrap_or(usize::MAX).min(room);
        if u64::try_from(keep).is_ok_and(|keep| keep < size) {
            out.extend_from_slice(format!("*2\r\n:{size}\r\n").as_bytes());
        }
        out.extend_from_slice(format!("${keep}\r\n").as_bytes());
        self.texts += keep;
        self.text = Some(Text { keep, left: size + 2 });
        Ok(())
    }

    /// Counts a complete value, and the lists that are complete with it.
    fn end_value(&mut self) {
        while let Some(missing) = self.open.last_mut() {
            *missing -= 1;
            if *missing > 0 {
                return;
            }
            self.open.pop();
            if self.skips == Some(self.open.len()) {
                self.skips = None;
            }
        }
        (self.items, self.skipped, self.texts) = (0, 0, 0);
    }
}

fn no_protocol() -> io::Error {
    broken("it does not speak the protocol of Redis")
}

fn broken(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passed(parts: &[&[u8]]) -> io::Result<Vec<u8>> {
        let (mut replies, mut out) = (Replies::default(), Vec::new());
        parts.iter().try_for_each(|part| replies.pass(part, &mut out))?;
        Ok(out)
    }

    fn reason(bytes: &[u8]) -> String {
        passed(&[bytes]).map_or_else(|error| error.to_string(), |_| "passed".to_owned())
    }

    #[test]
    fn a_text_above_the_limit_is_cut_and_the_next_reply_is_whole() {
        let size = MAX_TEXTS + 100;
        let head = format!("*2\r\n${size}\r\n");
        let large = [head.as_bytes(), &vec![b'x'; size], b"\r\n$70\r\n", &[b'y'; 70], b"\r\n"].concat();
        let got = passed(&[&large, b"$2\r\nok\r\n"]).expect("it passes");
        let kept = MAX_TEXTS;
        let head = format!("*2\r\n*2\r\n:{size}\r\n${kept}\r\n");
        let expected = [
            head.as_bytes(),
            &vec![b'x'; kept],
            // Little is left for the second text of the reply.
            b"\r\n*2\r\n:70\r\n$64\r\n",
            &[b'y'; MIN_TEXT],
            b"\r\n$2\r\nok\r\n",
        ];
        assert!(got == expected.concat(), "{} bytes", got.len());
    }

    #[test]
    fn replies_beyond_the_limits_are_refused_before_they_have_come() {
        assert_eq!(reason(b"HTTP/1.1 400 Bad Request\r\n"), "it does not speak the protocol of Redis");
        assert_eq!(reason(b"$x\r\n"), "it does not speak the protocol of Redis");
        assert_eq!(reason(b"$1073741825\r\n"), "a value is larger than 1 GiB");
        assert_eq!(reason(b"*90001\r\n"), "a reply has too many values");
        assert_eq!(reason(b"*1\r\n*10000001\r\n"), "a reply has too many values, or too deep lists");
        assert_eq!(reason(&b"*1\r\n".repeat(9)), "a reply has too many values, or too deep lists");
        assert_eq!(reason(&[b'+'; 70_000]), "a line of its reply is longer than 64 KiB");
        let lists = [b"*80000\r\n".as_slice(), &b"*1\r\n:1\r\n".repeat(70_000)].concat();
        assert_eq!(reason(&lists), "a reply has too many values");
        assert_eq!(reason(&b":1\r\n".repeat(200_000)), "passed");
    }

    #[test]
    fn a_list_within_a_reply_that_has_no_room_is_skipped_and_the_rest_of_the_reply_is_whole() {
        let long = [b"*100000\r\n".as_slice(), &b"$1\r\na\r\n*1\r\n:1\r\n".repeat(50_000)].concat();
        let reply = [b"*3\r\n:7\r\n".as_slice(), &long, b"$1\r\ny\r\n$2\r\nok\r\n"].concat();
        let expected = b"*3\r\n:7\r\n*2\r\n:100000\r\n$0\r\n\r\n$1\r\ny\r\n$2\r\nok\r\n".as_slice();
        assert_eq!(passed(&[&reply]).expect("it passes"), expected);
        for cut in [15, 25, 400_000, reply.len() - 20] {
            assert_eq!(passed(&[&reply[..cut], &reply[cut..]]).expect("it passes"), expected, "{cut}");
        }
    }

    proptest! {
        #[test]
        fn replies_within_the_limits_pass_unchanged_in_any_pieces(cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let bytes = b"*3\r\n$5\r\na\r\nbc\r\n*0\r\n*-1\r\n+OK\r\n-ERR no\r\n:-7\r\n$-1\r\n$0\r\n\r\n".as_slice();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(passed(&parts).expect("they pass"), bytes);
        }
    }
}
