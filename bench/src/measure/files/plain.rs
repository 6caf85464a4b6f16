//! The plain clients: an HTTP client with addresses that were signed before, and the program `sftp` of OpenSSH.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use futures_util::stream;
use servers::{objects, openssh};
use value::{Map, Value};

use super::super::ours::{Ours, PATIENCE, failed};
use crate::Error;
use crate::baseline::client;
use crate::process::{Processors, run};

const ACCESS_KEY: &str = "measured";
const SECRET_KEY: &str = "measured-secret";
const BUCKET: &str = "measured";
/// The bytes of a request that are in memory.
const CHUNK: usize = 128 << 10;

/// A system with its client.
pub(super) enum Plain {
    S3 { server: objects::Server, client: reqwest::Client },
    Sftp { server: openssh::Server, known_hosts: PathBuf },
}

/// The addresses of an object: to write it, and to read it.
pub(super) type Addresses = [String; 2];

impl Plain {
    /// The systems that this machine has.
    pub(super) fn all(processors: Processors, folder: &Path) -> Result<Vec<Self>, Error> {
        let mut all = Vec::new();
        if let Some(server) = processors.for_servers(|| objects::Server::weed(ACCESS_KEY, SECRET_KEY)) {
            let until = Instant::now() + PATIENCE;
            while let Err(error) = server.create_bucket(BUCKET) {
                if Instant::now() > until {
                    return Err(Error::io("a bucket")(error));
                }
                std::thread::park_timeout(std::time::Duration::from_millis(50));
            }
            all.push(Self::S3 { server, client: client()? });
        }
        if let Some(server) = processors.for_servers(|| openssh::Server::start("")) {
            all.push(Self::Sftp { server, known_hosts: folder.join("known_hosts") });
        }
        Ok(all)
    }

    /// The name of the system, and of the client.
    pub(super) fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::S3 { .. } => ("S3", "reqwest"),
            Self::Sftp { .. } => ("SFTP", "sftp"),
        }
    }

    /// The connection type and its inputs.
    pub(super) fn connection(&self) -> (&'static str, Map) {
        let map = |entries: &[(&'static str, &str)]| {
            entries.iter().map(|(name, value)| (*name, Value::from(*value))).collect()
        };
        match self {
            Self::S3 { server, .. } => {
                let (endpoint, bucket) = (("endpoint", server.endpoint.as_str()), ("bucket", BUCKET));
                ("s3.keys", map(&[endpoint, bucket, ("accessKey", ACCESS_KEY), ("secretKey", SECRET_KEY)]))
            }
            Self::Sftp { server, .. } => {
                let (user, host) = (openssh::user(), ("host", "127.0.0.1"));
                let (key, host_key) = (server.read("user"), server.read("host.pub"));
                let mut inputs: Map =
                    map(&[host, ("user", &user), ("privateKey", &key), ("hostKey", &host_key)]);
                inputs.insert("port", server.port);
                ("sftp.key", inputs)
            }
        }
    }

    /// The action that writes a file, with the input that names it.
    pub(super) fn writing(&self, name: &str) -> (&'static str, (&'static str, Value)) {
        match self {
            Self::S3 { .. } => ("s3.put", ("key", Value::from(name))),
            Self::Sftp { .. } => ("sftp.put", ("path", Value::from(name))),
        }
    }

    /// The action that reads a file, with the input that names it.
    pub(super) fn reading(&self, name: &str) -> (&'static str, (&'static str, Value)) {
        match self {
            Self::S3 { .. } => ("s3.get", ("key", Value::from(name))),
            Self::Sftp { .. } => ("sftp.get", ("path", Value::from(name))),
        }
    }

    /// Signs the addresses of objects; no other system has any.
    pub(super) async fn addresses(&self, ours: &Ours<'_>, names: &[String]) -> Result<Vec<Addresses>, Error> {
        let mut all = Vec::new();
        if let Self::S3 { .. } = self {
            for name in names {
                let mut addresses = Addresses::default();
                for (address, method) in addresses.iter_mut().zip(["PUT", "GET"]) {
                    let inputs = [("key", Value::from(name.as_str())), ("method", Value::from(method))];
                    let signed = ours.call("s3.presign", inputs).await?;
                    *address = signed.get("url").unwrap_or_default().to_text();
                }
                all.push(addresses);
            }
        }
        Ok(all)
    }

    /// Writes a file of this machine under each name, and returns the memory of the client if it is a program.
    pub(super) async fn write(
        &self,
        names: &[String],
        addresses: &[Addresses],
        file: &Path,
    ) -> Result<Option<u64>, Error> {
        let client = match self {
            Self::Sftp { .. } => return self.sftp(names, |name| format!("put {} {name}", quoted(file))),
            Self::S3 { client, .. } => client,
        };
        for [address, _] in addresses {
            let (opened, size) = std::fs::File::open(file)
                .and_then(|file| Ok((file.try_clone()?, file.metadata()?.len())))
                .map_err(Error::io("a file"))?;
            let chunks = stream::iter(Chunks(opened));
            let request = client.put(address).header("content-length", size);
            let answer = request.body(reqwest::Body::wrap_stream(chunks)).send().await.map_err(failed)?;
            answer.error_for_status().map_err(failed)?;
        }
        Ok(None)
    }

    /// Reads the file of each name into one of this machine.
    pub(super) async fn read(
        &self,
        names: &[String],
        addresses: &[Addresses],
        file: &Path,
    ) -> Result<Option<u64>, Error> {
        let client = match self {
            Self::Sftp { .. } => return self.sftp(names, |name| format!("get {name} {}", quoted(file))),
            Self::S3 { client, .. } => client,
        };
        for [_, address] in addresses {
            let answer = client.get(address).send().await.map_err(failed)?;
            let mut answer = answer.error_for_status().map_err(failed)?;
            let mut output = std::fs::File::create(file).map_err(Error::io("a file"))?;
            while let Some(chunk) = answer.chunk().await.map_err(failed)? {
                output.write_all(&chunk).map_err(Error::io("a file"))?;
            }
        }
        Ok(None)
    }

    /// Runs a command for each name in one session of the program.
    fn sftp(&self, names: &[String], command: impl Fn(&str) -> String) -> Result<Option<u64>, Error> {
        let Self::Sftp { server, known_hosts } = self else { return Ok(None) };
        let mut commands = String::new();
        for name in names {
            // Writing to a text cannot fail.
            let _ = writeln!(commands, "{}", command(name));
        }
        let (port, key) = (server.port, server.folder().join("user"));
        let line = format!("[127.0.0.1]:{port} {}", server.read("host.pub"));
        std::fs::write(known_hosts, line).map_err(Error::io("a file"))?;
        let mut client = Command::new("sftp");
        client.args(["-q", "-F", "none", "-b", "-", "-P"]).arg(port.to_string()).arg("-i").arg(key);
        client.arg("-o").arg(format!("UserKnownHostsFile={}", known_hosts.display()));
        client.arg(format!("{}@127.0.0.1", openssh::user())).stdout(Stdio::null());
        run(&mut client, commands.as_bytes())
    }
}

/// A path in a command of `sftp`.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

/// The chunks of a file.
struct Chunks(std::fs::File);

impl Iterator for Chunks {
    type Item = std::io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        use std::io::Read as _;
        let mut chunk = Vec::with_capacity(CHUNK);
        match (&self.0).take(CHUNK as u64).read_to_end(&mut chunk) {
            Ok(0) => None,
            Ok(_) => Some(Ok(chunk)),
            Err(error) => Some(Err(error)),
        }
    }
}
