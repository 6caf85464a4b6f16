//! Object stores from PyPI with the S3 API: SeaweedFS, which checks signatures, and moto, which refuses as AWS does.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use crate::{Running, free_port, program};

/// A running store. Dropping it ends it, and deletes its folder.
#[derive(Debug)]
pub struct Server {
    /// Its address.
    pub endpoint: String,
    /// The port at which SeaweedFS makes folders; a bucket is one.
    filer: u16,
    running: Running,
    _folder: TempDir,
}

impl Server {
    /// Starts SeaweedFS with one account, at which `store.localhost` is a name; `None` if it is not installed. It listens before it
    /// takes objects.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn weed(access_key: &str, secret_key: &str) -> Option<Self> {
        let path = program("weed")?;
        let made = || -> io::Result<Self> {
            let folder = tempfile::tempdir()?;
            let identity = json!({"identities": [{
                "name": "tests", "actions": ["Admin", "Read", "Write", "List"],
                "credentials": [{"accessKey": access_key, "secretKey": secret_key}],
            }]});
            std::fs::write(folder.path().join("s3.json"), identity.to_string())?;
            let (port, filer) = (free_port()?, free_port()?);
            let arguments = [
                "server".to_owned(),
                format!("-dir={}", folder.path().display()),
                "-ip=127.0.0.1".to_owned(),
                "-ip.bind=127.0.0.1".to_owned(),
                format!("-master.port={}", free_port()?),
                format!("-master.port.grpc={}", free_port()?),
                "-master.volumeSizeLimitMB=64".to_owned(),
                format!("-volume.port={}", free_port()?),
                format!("-volume.port.grpc={}", free_port()?),
                "-volume.max=40".to_owned(),
                "-filer".to_owned(),
                format!("-filer.port={filer}"),
                format!("-filer.port.grpc={}", free_port()?),
                "-s3".to_owned(),
                "-s3.port.iceberg=0".to_owned(),
                "-s3.port.lance=0".to_owned(),
                format!("-s3.port={port}"),
                format!("-s3.port.grpc={}", free_port()?),
                "-s3.domainName=store.localhost".to_owned(),
                format!("-s3.config={}", folder.path().join("s3.json").display()),
            ];
            Self::start(&path, &arguments, (port, filer), folder)
        };
        Some(made().unwrap_or_else(|error| panic!("SeaweedFS does not start: {error}")))
    }

    /// Starts moto, which takes every account; `None` if it is not installed.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn moto() -> Option<Self> {
        let path = program("moto_server")?;
        let made = || -> io::Result<Self> {
            let port = free_port()?;
            let arguments = ["-H".to_owned(), "127.0.0.1".to_owned(), "-p".to_owned(), port.to_string()];
            Self::start(&path, &arguments, (port, port), tempfile::tempdir()?)
        };
        Some(made().unwrap_or_else(|error| panic!("moto does not start: {error}")))
    }

    fn start(
        path: &Path,
        arguments: &[String],
        (port, filer): (u16, u16),
        folder: TempDir,
    ) -> io::Result<Self> {
        let (home, pid) = (folder.path().display().to_string(), folder.path().join("pid"));
        // The process id is that of the program, which takes the place of the shell. It would write to the home folder of the account.
        let script =
            "echo $$ > \"$0\"; home=$1; shift; exec env -C \"$home\" HOME=\"$home\" \"$@\"".to_owned();
        let own = ["-c".to_owned(), script, pid.display().to_string(), home, path.display().to_string()];
        let arguments: Vec<String> = own.into_iter().chain(arguments.iter().cloned()).collect();
        let running = Running::start(Path::new("/bin/sh"), &arguments, pid, port)?;
        Ok(Self { endpoint: format!("http://127.0.0.1:{port}"), filer, running, _folder: folder })
    }

    /// Sends it a signal, such as `STOP` and `CONT`.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        self.running.signal(name)
    }

    /// Makes a bucket of SeaweedFS.
    ///
    /// # Errors
    /// It is not up yet.
    pub fn create_bucket(&self, name: &str) -> io::Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.filer))?;
        write!(
            stream,
            "POST /buckets/{name}/ HTTP/1.1\r\nhost: filer\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if answer.starts_with("HTTP/1.1 2") { Ok(()) } else { Err(io::Error::other(answer)) }
    }
}
