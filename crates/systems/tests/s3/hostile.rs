//! Objects of a gigabyte in little memory. The runner gives each test a process of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use connector::FileAccess;
use model::ErrorKind;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use value::{Data, ExternalBytes, File, FileStorage, FileWriter, Map, Value};

use crate::store::{Store, map, once_with, registry};

const GIGABYTE: u64 = 1 << 30;
/// The memory that the process may have had, in KiB.
const MAX_MEMORY: u64 = 128 << 10;

/// Counts the written bytes, and keeps no byte.
#[derive(Debug, Default)]
struct Counting(Arc<AtomicUsize>);

impl FileStorage for Counting {
    fn create(&self) -> std::io::Result<Box<dyn FileWriter>> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

impl FileWriter for Counting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(())
    }

    fn finish(self: Box<Self>) -> std::io::Result<Data> {
        Ok(Data::default())
    }
}

/// A sparse file of a gigabyte.
#[derive(Debug)]
struct Zeros;

impl value::Blob for Zeros {
    fn digest(&self) -> [u8; 32] {
        [0; 32]
    }

    fn length(&self) -> u64 {
        GIGABYTE
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = usize::try_from(GIGABYTE - offset.min(GIGABYTE))
            .map_or(buffer.len(), |left| left.min(buffer.len()));
        buffer[..count].fill(0);
        Ok(count)
    }
}

/// A store that takes everything and keeps the number of its bytes, and whose objects have a gigabyte.
async fn store() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (address, taken) = (listener.local_addr().expect("an address"), Arc::<AtomicUsize>::default());
    let counted = taken.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, counted.clone()));
        }
    });
    (format!("http://{address}"), taken)
}

async fn serve(stream: TcpStream, taken: Arc<AtomicUsize>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut chunk = vec![0; 64 << 10];
    loop {
        let (mut line, mut first, mut length) = (String::new(), String::new(), 0_usize);
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap_or_default();
            }
            if line == "\r\n" {
                break;
            }
        }
        let is_part = first.contains("partNumber");
        while length > 0 {
            let most = length.min(chunk.len());
            let count = stream.read(&mut chunk[..most]).await?;
            length -= count;
            if is_part {
                taken.fetch_add(count, Ordering::Relaxed);
            }
        }
        if first.starts_with("GET /tests/") {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {GIGABYTE}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            for _ in 0..GIGABYTE / chunk.len() as u64 {
                stream.write_all(&chunk).await?;
            }
            continue;
        }
        let body = match first.as_str() {
            line if line.starts_with("GET") => "<ListMultipartUploadsResult/>",
            line if line.contains("uploads") => {
                "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
            }
            line if line.starts_with("POST") => {
                "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
            }
            _ => "",
        };
        let head = format!("HTTP/1.1 200 OK\r\netag: e\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).await?;
    }
}

/// The most memory that this process has had, in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_a_gigabyte_ends_at_the_limit_and_is_never_in_memory() {
    let (endpoint, _) = store().await;
    let registry = registry();
    let kind = registry.connection_type("s3.keys").expect("a type");
    let connection = kind.resolve("files", &Store::login(&endpoint, "tests")).expect("a connection");
    let written = Counting::default();
    let count = written.0.clone();
    let files = FileAccess { storage: Arc::new(written), dir: None };
    let inputs = map(json!({"key": "large"}));
    let error =
        once_with(&registry, &connection, "get", &inputs, (files, None)).await.expect_err("too large");
    assert_eq!(error.kind, ErrorKind::Limit, "{error:?}");
    assert!(count.load(Ordering::Relaxed) <= 512 << 20);
    assert!(memory() < MAX_MEMORY, "{} KiB", memory());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_gigabyte_is_sent_in_parts_and_is_never_in_memory() {
    let (endpoint, taken) = store().await;
    let registry = registry();
    let kind = registry.connection_type("s3.keys").expect("a type");
    let connection = kind.resolve("files", &Store::login(&endpoint, "tests")).expect("a connection");
    let data = Data::External(ExternalBytes::new(Arc::new(Zeros)));
    let file = File { content_type: "application/octet-stream".into(), filename: None, data };
    let inputs = Map::from_iter([("key", Value::from("large")), ("content", Value::from(file))]);
    let files = FileAccess::in_memory();
    once_with(&registry, &connection, "put", &inputs, (files, None)).await.expect("it is sent");
    assert_eq!(taken.load(Ordering::Relaxed) as u64, GIGABYTE);
    assert!(memory() < MAX_MEMORY, "{} KiB", memory());
}
