//! Real servers: OpenBao, and moto for AWS, from the programs that `make` installs below `target`.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The first token of OpenBao, which may do everything. It has the mark for which the end-to-end tests search.
pub(crate) const ROOT: &str = "root-canary-4471-token";
/// The time limit for the start of a server.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Dropping it ends it.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts OpenBao in memory; `None`, with a line, if it is not installed.
    pub(crate) async fn openbao(port: Option<u16>) -> Option<Self> {
        let port = port.unwrap_or_else(free_pair);
        let token = format!("-dev-root-token-id={ROOT}");
        let address = format!("-dev-listen-address=127.0.0.1:{port}");
        Self::start("bao", &["server", "-dev", "-dev-no-store-token", &token, &address], port).await
    }

    /// Starts moto; `None`, with a line, if it is not installed.
    pub(crate) async fn moto() -> Option<Self> {
        let port = free_port();
        Self::start("moto_server", &["-H", "127.0.0.1", "-p", &port.to_string()], port).await
    }

    async fn start(program: &str, arguments: &[&str], port: u16) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = servers::program(program)?;
        let log = std::fs::File::create(folder.path().join("log")).expect("a log");
        let child = Command::new(path)
            .args(arguments)
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("it starts");
        let server = Self { child, port, _folder: folder };
        let began = Instant::now();
        while server.request("GET", "/", "", &[]).await.is_none() {
            assert!(began.elapsed() < PATIENCE, "`{program}` does not start");
            std::thread::park_timeout(Duration::from_millis(50));
        }
        Some(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Stops the process where it is, or lets it go on.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { rustix::process::Signal::STOP } else { rustix::process::Signal::CONT };
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).expect("it runs");
    }

    /// Makes a request of OpenBao's API as root. Returns its answer, `null` without one.
    pub(crate) async fn api(&self, method: &str, path: &str, body: Value) -> Value {
        let token = format!("x-vault-token: {ROOT}");
        let path = format!("/v1/{path}");
        let (status, answer) =
            self.request(method, &path, &body.to_string(), &[&token]).await.expect("OpenBao answers");
        assert!(status < 400, "{method} {path}: {status} {answer}");
        serde_json::from_str(&answer).unwrap_or_default()
    }

    /// Changes secrets of AWS, in the region `eu-central-1`.
    pub(crate) async fn aws(&self, operation: &str, body: Value) {
        let target = format!("x-amz-target: secretsmanager.{operation}");
        let scope = "Credential=key/20261130/eu-central-1/secretsmanager/aws4_request";
        let signed = format!("authorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0");
        let headers = [target.as_str(), &signed, "content-type: application/x-amz-json-1.1"];
        let (status, answer) =
            self.request("POST", "/", &body.to_string(), &headers).await.expect("moto answers");
        assert_eq!(status, 200, "{operation}: {answer}");
    }

    /// Stores a version of a secret in the engine `secret`.
    pub(crate) async fn put(&self, name: &str, fields: Value) {
        self.api("POST", &format!("secret/data/cogwork/{name}"), serde_json::json!({"data": fields})).await;
    }

    /// Makes a request. `None` without an answer.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        body: &str,
        headers: &[&str],
    ) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n");
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some((status, body.to_owned()))
    }
}

fn free_port() -> u16 {
    servers::free_port().expect("a port")
}

/// A port that is free together with the next one, on which OpenBao listens for other servers.
fn free_pair() -> u16 {
    let mut port = free_port();
    for _ in 0..100 {
        let next = free_port();
        if next == port + 1 {
            return port;
        }
        port = next;
    }
    panic!("no two ports are free");
}
