//! Large data against a daemon: bodies that a call or an answer makes whole, and readers of large executions. Each row has the
//! bounds of the operands.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Bounds, Findings, Observed, PATIENCE, Started, write_others};
use crate::daemon::{self, Daemon};
use crate::project::Project;

/// The bytes of a binary body.
const BODY: usize = 6_000_000;
/// The response time of the called host, a part of the load.
const SLOW: Duration = Duration::from_millis(300);
/// The pause of a slow reader before it reads anything: a part of the load.
const PAUSE: Duration = Duration::from_secs(2);
/// The lists in the result of the largest execution, of as many numbers as a function gives.
const LISTS: usize = 9;
/// The hosts that answer with a large body. A daemon bounds its calls to one host.
const LARGE_HOSTS: usize = 8;
/// The cells of a sheet: as many as one may have.
const SHEET: (usize, usize) = (100, 19_999);
/// The bytes of a file of zeros, which is packed to a thousandth.
const ZEROS: usize = 8_000_000;
/// The elements of a page, each inside of the one before: more than the bound.
const DEPTH: usize = 20_000;
/// The rows of a sheet, each inside of the one before: less than a MiB, so that it is read although it is packed to a thousandth.
const SHEET_DEPTH: usize = 80_000;
/// The columns of a file of CSV.
const COLUMNS: usize = 1_000_000;
/// The parts of a workbook around its only sheet.
const BOOK: [(&str, &str); 3] = [
    ("[Content_Types].xml", "<Types/>"),
    (
        "xl/workbook.xml",
        r#"<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="A" sheetId="1" r:id="r1"/></sheets></workbook>"#,
    ),
    (
        "xl/_rels/workbook.xml.rels",
        r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#,
    ),
];
/// The documents of each kind at a time.
const DOCUMENTS: usize = 4;
/// The texts of 20 bytes in a body of 5 MB.
const TEXTS: usize = 240_000;

/// The amounts of data of a run.
#[derive(Clone, Copy, Debug)]
pub struct Amounts {
    /// Binary bodies into a call, and into an answer.
    pub bodies: usize,
    /// Readers of an execution at a time.
    pub readers: usize,
}

/// Sends large data to a daemon with these further `arguments`, and holds each row to `bounds`.
///
/// # Errors
/// The daemon cannot be started, or the system refuses.
pub async fn run_data(
    bounds: Bounds,
    amounts: Amounts,
    arguments: &[String],
) -> Result<Vec<(&'static str, Findings)>, daemon::Error> {
    let (slow, called) = slow_host("{}".into()).await?;
    let text = json!(vec!["x".repeat(20); TEXTS]).to_string();
    let mut large_hosts = Vec::new();
    for _ in 0..LARGE_HOSTS {
        large_hosts.push(slow_host(text.clone().into()).await?);
    }
    let project = Project::new()?;
    write_automations(&project, slow)?;
    let builder = Daemon::builder(&project).argument("--outbound-allow").argument("127.0.0.1");
    let Started { daemon, pid, client, addresses, idle } = Started::new(builder, arguments).await?;
    let address = |name: &str| addresses.get(name).cloned().unwrap_or_default();
    let rig = Rig { client, others: address("others"), pid, idle, bounds };
    let admin = Admin { url: daemon.admin_url(), token: daemon.admin_token()? };
    let mut rows = Vec::new();
    let body = bytes::Bytes::from(
        (0..BODY).map(|at| u8::try_from(at * 7919 % 251).unwrap_or_default() | 0x80).collect::<Vec<_>>(),
    );
    let (call, answer) = (address("call"), address("answer"));
    let calls = rig
        .row(send_bodies(&rig.client, &call, ("application/octet-stream", &body), amounts.bodies, &called))
        .await?;
    rows.push(("binary bodies into a call", calls));
    let answers = read_slowly(&answer, &body, amounts.bodies);
    rows.push(("binary bodies into an answer that is read slowly", rig.row(answers).await?));
    let fetches = rig.row(fetch(&rig.client, &address("fetch"), &large_hosts, amounts.bodies)).await?;
    rows.push(("answers of 5 MB into calls", fetches));
    rows.push((
        "sheets, bombs, deep documents and wide rows",
        rig.row(documents(&rig.client, &address)).await?,
    ));
    let large = start(&rig.client, &address("lists"), "{}").await?;
    let received = start(&rig.client, &address("received"), &text).await?;
    let shared = start(&rig.client, &address("shared"), "{}").await?;
    for (name, id) in [
        ("readers of the largest execution", &large),
        ("readers of an execution with a body of 5 MB", &received),
        ("readers of an execution whose result shares its parts", &shared),
    ] {
        rows.push((name, rig.row(admin.read(&rig.client, id, amounts.readers)).await?));
    }
    if !daemon.stop().await?.success()
        && let Some((_, last)) = rows.last_mut()
    {
        last.broken.push("the daemon did not end well".to_owned());
    }
    Ok(rows)
}

/// A daemon that is observed while it gets large data.
struct Rig {
    client: reqwest::Client,
    others: String,
    pid: u32,
    /// The memory of the idle daemon.
    idle: u64,
    bounds: Bounds,
}

impl Rig {
    /// Runs one row, with an observer beside it.
    async fn row(&self, requests: impl Future<Output = Vec<Result<u16, String>>>) -> io::Result<Findings> {
        // Resets the peak (proc(5)).
        std::fs::write(format!("/proc/{}/clear_refs", self.pid), "5")?;
        let observed = Observed::new(self.client.clone(), self.others.clone());
        let mut findings = Findings::default();
        for answer in requests.await {
            match answer {
                // A 503 says when to try again.
                Ok(status) if status < 400 || status == 503 => {
                    findings.answered += 1;
                    *findings.statuses.entry(status).or_default() += 1;
                }
                Ok(status) => findings.broken.push(format!("an answer was {status}")),
                Err(error) => findings.broken.push(error),
            }
        }
        observed.judge(&mut findings, self.pid, self.idle, self.bounds).await?;
        Ok(findings)
    }
}

/// The admin listener of a daemon.
struct Admin {
    url: String,
    token: String,
}

impl Admin {
    /// Reads an execution in each form, many at a time.
    async fn read(&self, client: &reqwest::Client, id: &str, readers: usize) -> Vec<Result<u16, String>> {
        let forms =
            ["", "?large=cut", "/export?format=json", "/export", "/events?limit=1000", "/values?at=/outcome"];
        let read = |at: usize| {
            let url = format!("{}/api/v1/executions/{id}{}", self.url, forms[at % forms.len()]);
            let request = client.get(url).bearer_auth(&self.token);
            async move {
                let mut answer = request.send().await.map_err(|error| error.to_string())?;
                let status = answer.status().as_u16();
                while answer.chunk().await.map_err(|error| error.to_string())?.is_some() {}
                Ok(status)
            }
        };
        join_all((0..readers).map(read)).await
    }
}

/// Starts an execution and waits for its end. Returns its id.
async fn start(client: &reqwest::Client, address: &str, body: &str) -> io::Result<String> {
    let request = client.post(address).header("content-type", "application/json").body(body.to_owned());
    let answer = request.send().await.map_err(io::Error::other)?;
    let id = answer.headers().get("x-execution-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    id.ok_or_else(|| io::Error::other(format!("{address} answered {} without an execution", answer.status())))
}

/// Sends bodies, and waits until all calls have been made.
async fn send_bodies(
    client: &reqwest::Client,
    address: &str,
    (content_type, body): (&str, &bytes::Bytes),
    count: usize,
    called: &watch::Receiver<usize>,
) -> Vec<Result<u16, String>> {
    let send = || {
        let request = client.post(address).header("content-type", content_type).body(body.clone());
        async move {
            let answer = request.send().await.map_err(|error| error.to_string())?;
            Ok(answer.status().as_u16())
        }
    };
    let mut answers = join_all((0..count).map(|_| send())).await;
    let accepted = answers.iter().filter(|answer| answer.as_ref().is_ok_and(|status| *status < 400)).count();
    let mut calls = called.clone();
    if !matches!(timeout(PATIENCE, calls.wait_for(|made| *made >= accepted)).await, Ok(Ok(_))) {
        let made = *called.borrow();
        answers.push(Err(format!("{made} of {accepted} calls were made")));
    }
    answers
}

/// Sends sheets of as many cells as they may have, files that are packed to a thousandth, pages and sheets of deep elements, and rows of
/// a million columns.
async fn documents(client: &reqwest::Client, address: &dyn Fn(&str) -> String) -> Vec<Result<u16, String>> {
    let (columns, rows) = SHEET;
    let names: Vec<String> = (0..columns).map(|column| format!("c{column}")).collect();
    let row = format!("{}1\n", "1,".repeat(columns - 1));
    let kinds = [
        ("sheets", bytes::Bytes::from(format!("{}\n{}", names.join(","), row.repeat(rows)))),
        ("bombs", bytes::Bytes::from(vec![0; ZEROS])),
        ("pages", bytes::Bytes::from("<div>".repeat(DEPTH))),
        ("deep", bytes::Bytes::from(format!("<worksheet><sheetData>{}", "<row><c><is>".repeat(SHEET_DEPTH)))),
        ("columns", bytes::Bytes::from((0..COLUMNS).map(|at| format!("c{at},")).collect::<String>())),
    ];
    let send = |(name, body): &(&str, bytes::Bytes)| {
        let request = client.post(address(name)).header("content-type", "text/csv").body(body.clone());
        async move {
            let answer = request.send().await.map_err(|error| error.to_string())?;
            Ok(answer.status().as_u16())
        }
    };
    join_all(kinds.iter().cycle().take(kinds.len() * DOCUMENTS).map(send)).await
}

/// Starts calls of hosts that answer with a large body, and waits until all have been made.
async fn fetch(
    client: &reqwest::Client,
    address: &str,
    hosts: &[(SocketAddr, watch::Receiver<usize>)],
    count: usize,
) -> Vec<Result<u16, String>> {
    let of_host = |(host, called): &(SocketAddr, watch::Receiver<usize>)| {
        let body = bytes::Bytes::from(json!({"port": host.port()}).to_string());
        let (called, count) = (called.clone(), count / hosts.len());
        async move { send_bodies(client, address, ("application/json", &body), count, &called).await }
    };
    join_all(hosts.iter().map(of_host)).await.concat()
}

/// Sends binary bodies, and reads the answers late.
async fn read_slowly(address: &str, body: &bytes::Bytes, count: usize) -> Vec<Result<u16, String>> {
    let read = || async {
        let url = reqwest::Url::parse(address).map_err(|error| error.to_string())?;
        let read = read_late(&url, body);
        timeout(PATIENCE, read).await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    };
    join_all((0..count).map(|_| read())).await
}

async fn read_late(url: &reqwest::Url, body: &bytes::Bytes) -> io::Result<u16> {
    let (host, port) = (url.host_str().unwrap_or_default(), url.port().unwrap_or(80));
    let mut stream = TcpStream::connect((host, port)).await?;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\ncontent-type: application/octet-stream\r\n\
         content-length: {}\r\n\r\n",
        url.path(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut start = [0; 12];
    stream.read_exact(&mut start).await?;
    sleep(PAUSE).await;
    let mut buffer = vec![0; 64 << 10];
    while stream.read(&mut buffer).await? > 0 {}
    let status = std::str::from_utf8(&start[9..]).ok().and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other("the answer has no status"))
}

/// A host that answers late with this JSON, with the number of its answers. It ends with the process.
async fn slow_host(json: bytes::Bytes) -> io::Result<(SocketAddr, watch::Receiver<usize>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let (counter, called) = watch::channel(0);
    let counter = Arc::new(counter);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_late(stream, json.clone(), counter.clone()));
        }
    });
    Ok((address, called))
}

/// Reads requests with their bodies, and answers each late.
async fn answer_late(
    mut stream: TcpStream,
    json: bytes::Bytes,
    called: Arc<watch::Sender<usize>>,
) -> io::Result<()> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let end = loop {
            if let Some(end) = received.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read(&mut buffer).await? {
                0 => return Ok(()),
                count => received.extend_from_slice(&buffer[..count]),
            }
        };
        let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let mut left = length.unwrap_or_default().saturating_sub(received.len() - end);
        while left > 0 {
            let count = stream.read(&mut buffer).await?;
            left = if count == 0 { 0 } else { left.saturating_sub(count) };
        }
        received.clear();
        sleep(SLOW).await;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\ncontent-type: application/json\r\n\r\n",
            json.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&json).await?;
        called.send_modify(|made| *made += 1);
    }
}

fn write_automations(project: &Project, slow: SocketAddr) -> io::Result<()> {
    let write = |name: &str, mode: &str, steps: Value| {
        let mut webhook = json!({"mode": mode, "verify": "none", "maxBody": "8MiB"});
        if mode == "sync" {
            webhook["timeout"] = json!("100s");
        }
        project.automation(name, &json!({"trigger": {"webhook": webhook}, "steps": steps}).to_string())
    };
    let data = "${{ trigger.results.body.data }}";
    let call = json!({"method": "POST", "url": format!("http://{slow}/"), "body": {"b": data}});
    write("call", "async", json!([{"action": "http.request", "with": call}]))?;
    let port = "${{ trigger.results.body.data.port }}";
    let get = json!({"method": "GET", "url": format!("http://127.0.0.1:{port}/")});
    let count = json!({"set": {"count": "${{ steps.got.results.body | length }}"}});
    write("fetch", "async", json!([{"id": "got", "action": "http.request", "with": get}, count]))?;
    write("answer", "sync", json!([{"respond": {"json": {"b": data}}}]))?;
    let numbers = |at: usize| json!(format!("${{{{ range({}, {}) }}}}", at * 100_000, (at + 1) * 100_000));
    let lists = (0..LISTS).map(|at| json!({"set": {format!("l{at}"): numbers(at)}}));
    write("lists", "sync", lists.collect())?;
    write("received", "sync", json!([{"set": {"a": 1}}]))?;
    let twice = json!({"set": {"s": "${{ [vars.s, vars.s] }}"}});
    write("shared", "sync", json!([{"set": {"s": [1]}}, {"repeat": {"max": 100}, "steps": [twice]}]))?;
    let body = "${{ trigger.results.rawBody }}";
    let sheet = json!({"name": "A", "rows": body, "format": "csv"});
    let book = json!({"id": "book", "action": "sheet.write", "with": {"sheets": [sheet]}});
    let read =
        json!({"action": "sheet.read", "with": {"file": "${{ steps.book.results.file }}", "as": "csv"}});
    write("sheets", "sync", json!([book, read]))?;
    let pack =
        json!({"id": "pack", "action": "zip.pack", "with": {"files": [{"name": "zeros", "content": body}]}});
    let unpack = json!({"file": "${{ steps.pack.results.file }}"});
    let is_refused = json!({"action": "zip.unpack", "with": unpack, "onError": "continue"});
    write("bombs", "sync", json!([pack, is_refused]))?;
    let text = json!({"action": "html.text", "with": {"html": body}, "onError": "continue"});
    write("pages", "sync", json!([text]))?;
    let part = |(name, content): (&str, &str)| json!({"name": name, "content": content});
    let parts: Vec<Value> = BOOK.into_iter().chain([("xl/worksheets/sheet1.xml", body)]).map(part).collect();
    let pack = json!({"id": "pack", "action": "zip.pack", "with": {"files": parts}});
    let file = json!({"file": "${{ steps.pack.results.file }}"});
    write("deep", "sync", json!([pack, {"action": "sheet.read", "with": file, "onError": "continue"}]))?;
    let parse = json!({"action": "data.parseCsv", "with": {"data": body}, "onError": "continue"});
    write("columns", "sync", json!([parse]))?;
    write_others(project)
}
