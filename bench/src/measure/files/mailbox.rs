//! Messages of a mailbox, and attachments that are written into files, beside a session that does the least.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use servers::dovecot::{Server, USER};
use value::{Map, Value};

use super::super::Terms;
use super::super::comparison::{Comparison, rounds};
use super::super::ours::Ours;
use crate::Error;
use crate::report::{Report, Unit};

const PASSWORD: &str = "measured";
/// The messages of a round.
const MESSAGES: u32 = 100;
/// The large attachment of a round, in MiB as it is sent.
const ATTACHMENT: u32 = 32;
/// A line of base64 as it is sent.
const LINE: &str = "QSBsaW5lIG9mIGFuIGF0dGFjaG1lbnQsIHJlcGVhdGVkIHVudGlsIGl0IGlzIGxhcmdlLg==\r\n";
/// The mailbox of the messages, and that of the attachment.
const TEXTS: &str = "Archive";
const FILES: &str = "INBOX";

/// Measures the reading of texts and of an attachment. Nothing without a server.
pub(super) async fn measure(terms: Terms<'_>, folder: &Path, report: &mut Report) -> Result<(), Error> {
    let Some(server) = terms.processors.for_servers(|| Server::start(PASSWORD)) else { return Ok(()) };
    deliver(&server).map_err(Error::io("a mailbox"))?;
    let with = Map::from_iter([
        ("host", Value::from("127.0.0.1")),
        ("port", Value::from(server.port)),
        ("security", Value::from("none")),
        ("username", Value::from(USER)),
        ("password", Value::from(PASSWORD)),
    ]);
    let ours = Ours::new(folder, "mail.imap", &with)?;
    for (name, mailbox, amount, unit) in [
        ("messages from IMAP", TEXTS, MESSAGES, Unit::PerSecond),
        ("an attachment from IMAP", FILES, ATTACHMENT, Unit::MebibytesPerSecond),
    ] {
        let found = ours.call("mail.search", [("mailbox", Value::from(mailbox))]).await?;
        let found = found.get("results").unwrap_or_default();
        let found = found.as_list().map(<[_]>::to_vec).unwrap_or_default();
        let mut work = Comparison::new(name.to_owned(), amount, unit);
        for _ in 0..rounds(terms) {
            work.ours(get(&ours, mailbox, &found)).await?;
            let plain = async {
                let read = plain(server.port, mailbox, &folder.join("attachment"));
                read.map_err(Error::io("a session of IMAP")).map(|()| None)
            };
            work.plain(plain).await?;
        }
        work.report(report, "files", "a plain session", None);
    }
    Ok(())
}

fn deliver(server: &Server) -> std::io::Result<()> {
    let head = "From: a@example.com\r\nTo: b@example.com\r\nSubject: measured\r\n";
    for number in 0..MESSAGES {
        let message =
            format!("{head}Message-ID: <{number}@example.com>\r\n\r\n{}", "A line of text.\r\n".repeat(50));
        server.deliver(TEXTS, message.as_bytes())?;
    }
    let lines = LINE.repeat(ATTACHMENT as usize * (1 << 20) / LINE.len());
    let message = format!(
        "{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\ntext\r\n\
         --x\r\nContent-Type: application/octet-stream; name=large.bin\r\nContent-Disposition: attachment\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{lines}\r\n--x--\r\n"
    );
    server.deliver(FILES, message.as_bytes())
}

/// Reads messages that a search has found, with their attachments.
async fn get(ours: &Ours<'_>, mailbox: &str, found: &[Value]) -> Result<(), Error> {
    for message in found {
        let number = |name: &'static str| (name, message.get(name).unwrap_or_default());
        ours.call("mail.get", [("mailbox", Value::from(mailbox)), number("uid"), number("uidValidity")])
            .await?;
    }
    Ok(())
}

/// Reads all messages of a mailbox in one session: their heads and texts, and the attachment into a file.
fn plain(port: u16, mailbox: &str, file: &Path) -> std::io::Result<()> {
    let mut writer = TcpStream::connect(("127.0.0.1", port))?;
    writer.set_nodelay(true)?;
    let mut reader = BufReader::new(writer.try_clone()?);
    let mut output = std::fs::File::create(file)?;
    let mut command = |text: &str| -> std::io::Result<()> {
        write!(writer, "a {text}\r\n")?;
        answer(&mut reader, &mut output)
    };
    command(&format!("LOGIN {USER} {PASSWORD}"))?;
    command(&format!("EXAMINE {mailbox}"))?;
    let (last, part) = if mailbox == TEXTS { (MESSAGES, "TEXT") } else { (1, "2") };
    for number in 1..=last {
        command(&format!("FETCH {number} (FLAGS BODY.PEEK[HEADER] BODY.PEEK[{part}])"))?;
    }
    command("LOGOUT")
}

/// Reads an answer to its end, and writes its texts, decoded where they are lines of base64.
fn answer(reader: &mut BufReader<TcpStream>, output: &mut std::fs::File) -> std::io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        if let Some(size) = text.strip_suffix('}').and_then(|text| text.rsplit_once('{')?.1.parse().ok()) {
            let mut lines = reader.by_ref().take(size);
            let mut bytes = Vec::new();
            while lines.read_until(b'\n', &mut bytes)? > 0 {
                let decoded = STANDARD.decode(bytes.trim_ascii_end());
                output.write_all(decoded.as_ref().unwrap_or(&bytes))?;
                bytes.clear();
            }
        } else if text.starts_with("a ") {
            return if text.starts_with("a OK") { Ok(()) } else { Err(std::io::Error::other(line)) };
        }
    }
}
