//! Generations of the deployed project. A text is stored once, whichever files and generations have it.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use super::list::timestamp;
use super::op::{Done, Op, params};
use super::queue::Queue;
use super::reader::{Reader, damaged, get, text};
use store::Error;
use store::{DeployOutcome, DeployedFile, Generation, GenerationSource, NewGeneration};

/// The number of generations that are kept.
const KEPT: i32 = 50;
/// Approximate maximum number of bytes of texts in one statement.
const CHUNK: usize = 256 << 10;
/// The attempts to deploy while the texts that it needs are deleted.
const ATTEMPTS: usize = 3;

const STORED: &str = "SELECT hash FROM deployed_texts WHERE hash = ANY ($1)";
const PUT: &str = "INSERT INTO deployed_texts (hash, put_ns, body) \
    SELECT t.hash, (extract(epoch FROM clock_timestamp()) * 1e9)::int8, t.body FROM unnest($1::bytea[], $2::bytea[]) AS t (hash, body) \
    ORDER BY t.hash ON CONFLICT (hash) DO UPDATE SET put_ns = excluded.put_ns";
const DEPLOY: &str = "SELECT deploy($1, $2, $3, $4, $5, $6, $7, $8)";
const BY_REQUEST: &str = "SELECT d.generation, d.at_ns, d.author, d.note, d.source, \
      (SELECT count(*) FROM deployed_files f WHERE f.generation = d.generation) FROM deployments d WHERE d.id = $1";
const NEWEST: &str = "SELECT d.generation, d.at_ns, d.author, d.note, d.source, \
      (SELECT count(*) FROM deployed_files f WHERE f.generation = d.generation) \
    FROM deployments d ORDER BY d.generation DESC LIMIT $1";
const FILES: &str = "SELECT f.path, t.body FROM deployed_files f JOIN deployed_texts t ON t.hash = f.hash \
    WHERE f.generation = $1 ORDER BY f.path";
const EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM deployments WHERE generation = $1)";
/// Several nodes run, and each of them reads its own folder.
const IS_DIVIDED: &str =
    "SELECT (SELECT count(*) FROM nodes WHERE NOT dead) > 1 AND NOT EXISTS (SELECT 1 FROM deployments)";

/// Stores a generation as the newest one.
pub(super) async fn deploy(
    queue: &Queue,
    reader: &Reader,
    new: NewGeneration,
) -> Result<DeployOutcome, Error> {
    let mut texts = BTreeMap::new();
    let (mut paths, mut hashes) = (Vec::new(), Vec::new());
    for file in new.files {
        let hash = Sha256::digest(file.text.as_bytes()).to_vec();
        paths.push(file.path.into_bytes());
        hashes.push(hash.clone());
        texts.insert(hash, file.text.into_bytes());
    }
    let (id, follows) = (Uuid::from_bytes(new.id), i64::try_from(new.follows).unwrap_or(i64::MAX));
    let (author, note) = (new.author.into_bytes(), new.note.into_bytes());
    for _ in 0..ATTEMPTS {
        put_texts(queue, reader, &texts).await?;
        let (paths, hashes, source) = (paths.clone(), hashes.clone(), new.source.as_str());
        let params = params![id, follows, author.clone(), note.clone(), source, paths, hashes, KEPT];
        let statements = vec![(DEPLOY, params), (BY_REQUEST, params![id])];
        let Done::Rows(lists) = queue.write(Op::Statements(statements)).await? else { break };
        let [verdict, stored] = lists.as_slice() else { break };
        if let Some(row) = stored.first() {
            return generation(row).map(DeployOutcome::Deployed);
        }
        let is_overtaken = verdict.first().map(|row| get::<bool>(row, 0)).transpose()?;
        if is_overtaken == Some(true) {
            return Ok(DeployOutcome::Overtaken);
        }
    }
    Err(Error::Write { reason: "the texts of the deployment were deleted meanwhile".to_owned() })
}

/// Stores the texts that are not stored yet.
async fn put_texts(queue: &Queue, reader: &Reader, texts: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), Error> {
    let wanted: Vec<Vec<u8>> = texts.keys().cloned().collect();
    let stored = reader.rows(STORED, params![wanted]).await?;
    let stored = stored.iter().map(|row| get(row, 0)).collect::<Result<BTreeSet<Vec<u8>>, Error>>()?;
    let (mut hashes, mut bodies, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (hash, body) in texts {
        if stored.contains(hash) {
            continue;
        }
        bytes += body.len();
        hashes.push(hash.clone());
        bodies.push(body.clone());
        if bytes >= CHUNK {
            let put = params![std::mem::take(&mut hashes), std::mem::take(&mut bodies)];
            queue.write(Op::Statements(vec![(PUT, put)])).await?;
            bytes = 0;
        }
    }
    if !hashes.is_empty() {
        queue.write(Op::Statements(vec![(PUT, params![hashes, bodies])])).await?;
    }
    Ok(())
}

/// Returns the newest generations, the newest first.
pub(super) async fn newest(reader: &Reader, limit: u32) -> Result<Vec<Generation>, Error> {
    reader.rows(NEWEST, params![i64::from(limit)]).await?.iter().map(generation).collect()
}

/// Returns the files of a generation by path; `None` if there is no such generation.
pub(super) async fn files(reader: &Reader, number: u64) -> Result<Option<Vec<DeployedFile>>, Error> {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    let file = |row: &Row| Ok(DeployedFile { path: text(row, 0)?, text: text(row, 1)? });
    let files: Vec<_> =
        reader.rows(FILES, params![number]).await?.iter().map(file).collect::<Result<_, Error>>()?;
    if files.is_empty() {
        let found = reader.row(EXISTS, params![number]).await?;
        let exists: bool = found.map(|row| get(&row, 0)).transpose()?.unwrap_or_default();
        return Ok(exists.then_some(files));
    }
    Ok(Some(files))
}

/// Returns the sentence for people if several nodes run without a deployment.
pub(super) async fn weakness(reader: &Reader) -> Result<Option<String>, Error> {
    let row = reader.row(IS_DIVIDED, Vec::new()).await?;
    let is_divided: bool = row.map(|row| get(&row, 0)).transpose()?.unwrap_or_default();
    Ok(is_divided.then(|| {
        "several daemons share the store, and each reads its own project folder; deploy the definitions with `cogwork push`"
            .to_owned()
    }))
}

fn generation(row: &Row) -> Result<Generation, Error> {
    let (number, files): (i64, i64) = (get(row, 0)?, get(row, 5)?);
    let word: String = get(row, 4)?;
    let source = GenerationSource::parse(&word)
        .ok_or_else(|| damaged(format!("`{word}` is no source of a generation")))?;
    Ok(Generation {
        number: u64::try_from(number).unwrap_or_default(),
        at: timestamp(get(row, 1)?)?,
        author: text(row, 2)?,
        note: text(row, 3)?,
        source,
        files: u32::try_from(files).unwrap_or(u32::MAX),
    })
}
