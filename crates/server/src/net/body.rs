//! Reading a request's body: no larger, no slower, and no more of them at one time than allowed. A large one goes to disk
//! while it arrives, and comes into memory only where it has to, and when there is room for all of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until, timeout};
use value::{Data, MemoryFiles, Reserved, memory_of_parts};

use super::outgoing::{KeepError, Outgoing};
use super::spool::{Share, Spool, Spooled};
use super::{BUFFER, Refusal};
use crate::options::Deadlines;

/// The largest body that is in memory while it arrives (semantics 3.2) or is sent.
pub(super) const SMALL: usize = 256 << 10;
/// The bytes a second at which a body may take longer than the deadline.
const GOOD_PACE: f64 = (256 << 10) as f64;
/// How much of a large body is looked at to see what it is.
const START: usize = 1 << 10;
/// How long a body that has arrived waits for room in memory.
const PATIENCE: Duration = Duration::from_secs(30);
/// The bytes of a body that are read at one time to count its items.
const CHUNK: usize = 64 << 10;

/// The bytes of bodies that may be in memory at one time, and where larger ones are meanwhile.
#[derive(Debug)]
pub(crate) struct Budget {
    all: usize,
    /// The bytes that large bodies leave to small ones: those would otherwise wait as long as the large ones.
    for_small: usize,
    left: AtomicUsize,
    given_back: Notify,
    spool: Option<Arc<Spool>>,
}

impl Budget {
    /// A budget of `bytes` bytes. Without a folder every body is in memory from its first byte on.
    pub(crate) fn new(bytes: usize, spool: Option<Arc<Spool>>) -> Arc<Self> {
        Arc::new(Self {
            all: bytes,
            for_small: bytes / 4,
            left: AtomicUsize::new(bytes),
            given_back: Notify::new(),
            spool,
        })
    }

    /// The body of a response; a large one is written to disk first.
    ///
    /// # Errors
    /// There is no room for it on the disk.
    pub(crate) async fn outgoing(&self, data: Data) -> Result<Outgoing, Refusal> {
        let Some(spool) = &self.spool else { return Ok(data.into()) };
        Outgoing::on_disk_if_large(data, spool).await.map_err(|error| {
            tracing::warn!(%error, "the body of a response could not be kept until it is read");
            Refusal::no_room_for_response()
        })
    }

    /// The body of a response whose length is not known; a large one is written to disk while it is made.
    ///
    /// # Errors
    /// There is no room for it on the disk, or the body itself failed: then in words.
    pub(crate) async fn outgoing_parts<B>(&self, body: B) -> Result<Outgoing, Result<Refusal, String>>
    where
        B: hyper::body::Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
    {
        let spool = self.spool.clone().unwrap_or_else(|| Spool::new(Arc::new(MemoryFiles)));
        Outgoing::kept(body, &spool).await.map_err(|error| match error {
            KeepError::Body(error) => Err(error),
            KeepError::Disk(error) => {
                tracing::warn!(%error, "the body of a response could not be kept until it is read");
                Ok(Refusal::no_room_for_response())
            }
        })
    }

    fn take(&self, bytes: usize) -> bool {
        self.take_and_leave(bytes, 0)
    }

    /// Takes `bytes` bytes if as many as `remaining` are left then.
    fn take_and_leave(&self, bytes: usize, remaining: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes).filter(|left| *left >= remaining);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Waits until there is room for `bytes` bytes beside `remaining` ones. Returns false on a timeout.
    async fn take_in_time(&self, bytes: usize, remaining: usize) -> bool {
        let there = async {
            loop {
                let given_back = self.given_back.notified();
                if self.take_and_leave(bytes, remaining) {
                    return;
                }
                given_back.await;
            }
        };
        timeout(PATIENCE, there).await.is_ok()
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.left.fetch_add(bytes, Ordering::Relaxed);
            allocator::note_freed(bytes);
            self.given_back.notify_waiters();
        }
    }
}

/// A body, counted against the budget for as long as this is held: that of memory, or that of the disk.
#[derive(Debug)]
pub(crate) struct BufferedBody {
    data: Data,
    budget: Arc<Budget>,
    counted: usize,
    on_disk: Option<Share>,
}

impl BufferedBody {
    fn nothing(budget: &Arc<Budget>) -> Self {
        Self { data: Data::default(), budget: Arc::clone(budget), counted: 0, on_disk: None }
    }

    /// The bytes, which are shared and not copied.
    pub(crate) fn data(&self) -> Data {
        self.data.clone()
    }

    /// The bytes of one that is in memory.
    pub(crate) fn bytes(&self) -> Bytes {
        self.data.in_memory().cloned().unwrap_or_default()
    }

    /// True if it is in a file.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.on_disk.is_some()
    }

    /// How it begins.
    pub(crate) fn start(&self) -> Vec<u8> {
        let mut start = vec![0; START];
        // It was written a moment ago, so this reads no disk.
        let count = self.data.read_at(0, &mut start).unwrap_or_default();
        start.truncate(count);
        start
    }

    /// The body in memory, once there is room for all of it.
    pub(crate) async fn into_memory(mut self) -> Result<Self, Refusal> {
        if self.on_disk.is_none() {
            return Ok(self);
        }
        let length = self.data.len();
        if length > self.budget.all {
            return Err(Refusal::out_of_memory());
        }
        let data = self.data.clone();
        let counted = allocator::large_work(move || memory_of_values(&data));
        let counted = counted.await.map_err(io::Error::other).flatten().map_err(|error| no_room(&error))?;
        let remaining = if length > SMALL { self.budget.for_small } else { 0 };
        let counted = counted.saturating_add(length).min(self.budget.all - remaining);
        if !self.budget.take_in_time(counted, remaining).await {
            return Err(Refusal::out_of_memory());
        }
        self.counted += counted;
        let data = self.data.clone();
        let memory = Reserved::uncounted(length);
        let read = allocator::large_work(move || data.load(length, &memory));
        let read = read.await.map_err(io::Error::other).map_err(|error| no_room(&error))?;
        self.data = read.map_err(|error| no_room(&io::Error::other(error)))?.into();
        self.on_disk = None;
        Ok(self)
    }

    fn count(&mut self, bytes: usize) -> bool {
        let counted = self.budget.take(bytes);
        self.counted += if counted { bytes } else { 0 };
        counted
    }

    /// Counts `bytes` in all, in place of what was counted. False where there is no room for more; less is always counted.
    fn count_in_all(&mut self, bytes: usize) -> bool {
        match bytes.checked_sub(self.counted) {
            Some(more) => more == 0 || self.count(more),
            None => {
                self.budget.give_back(self.counted - bytes);
                self.counted = bytes;
                true
            }
        }
    }
}

impl Drop for BufferedBody {
    fn drop(&mut self) {
        self.budget.give_back(self.counted);
    }
}

/// Estimates the memory of the values in a body, with its text. Reads all of it, in parts. Blocks.
fn memory_of_values(body: &Data) -> io::Result<usize> {
    let (mut memory, mut at) = (body.len(), 0);
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = body.read_at(at as u64, &mut chunk)?;
        if count == 0 {
            return Ok(memory);
        }
        memory += memory_of_parts(&chunk[..count]);
        at += count;
    }
}

/// Reads a whole body of at most `limit` bytes into memory; else as [`arrive`].
pub(crate) async fn read(
    body: Incoming,
    limit: usize,
    budget: &Arc<Budget>,
    deadlines: &Deadlines,
) -> Result<BufferedBody, Refusal> {
    arrive(body, limit, budget, deadlines).await?.into_memory().await
}

/// Reads a whole body of at most `limit` bytes, a large one onto the disk. A body that says it is larger is refused before any of it is read; the
/// peer that asked with `Expect: 100-continue` is then never told to go on.
pub(crate) async fn arrive(
    mut body: Incoming,
    limit: usize,
    budget: &Arc<Budget>,
    deadlines: &Deadlines,
) -> Result<BufferedBody, Refusal> {
    if body.is_end_stream() {
        return Ok(BufferedBody::nothing(budget));
    }
    let expected = body.size_hint().exact();
    if expected.is_some_and(|expected| expected > limit as u64) {
        return Err(Refusal::too_large(limit));
    }
    let mut arriving = Arriving::new(budget, expected);
    // The parser reads a body that comes in pieces into a buffer of its own, for as long as it comes.
    let mut parser = BufferedBody::nothing(budget);
    let pace = ThroughputLimit { started: Instant::now(), deadlines };
    let late = sleep_until(pace.deadline(0));
    tokio::pin!(late);
    while !body.is_end_stream() {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = &mut late => return Err(Refusal::slow_body()),
        };
        let Some(frame) = frame else { break };
        // An error here is a peer that went away or chunks that make no sense: there is nobody to tell much.
        let frame = frame.map_err(|_| Refusal::broken_body())?;
        // Trailers say nothing that a webhook could use.
        let Ok(data) = frame.into_data() else { continue };
        if arriving.received + data.len() > limit {
            return Err(Refusal::too_large(limit));
        }
        if !body.is_end_stream() && parser.counted == 0 && !parser.count(BUFFER) {
            arriving.spills = true;
        }
        arriving.take(data).await?;
        if !body.is_end_stream() {
            late.as_mut().reset(pace.deadline(arriving.received));
        }
    }
    arriving.whole().await
}

/// A body that has arrived in part.
struct Arriving {
    held: BufferedBody,
    /// The received bytes while in memory: the first chunk, then all chunks together.
    first: Bytes,
    joined: BytesMut,
    spooled: Option<Spooled>,
    received: usize,
    /// How many bytes it says it has.
    expected: usize,
    /// True if it goes to disk regardless of its size, since memory is short.
    spills: bool,
}

impl Arriving {
    fn new(budget: &Arc<Budget>, expected: Option<u64>) -> Self {
        let expected = expected.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default();
        let (first, joined) = (Bytes::new(), BytesMut::new());
        Self {
            held: BufferedBody::nothing(budget),
            first,
            joined,
            spooled: None,
            received: 0,
            expected,
            spills: false,
        }
    }

    async fn take(&mut self, data: Bytes) -> Result<(), Refusal> {
        self.received += data.len();
        if self.spooled.is_some() {
            return self.push(data).await.map_err(|error| no_room(&error));
        }
        let large = self.spills || self.received.max(self.expected) > SMALL;
        match self.held.budget.spool.clone() {
            Some(spool) if large || !self.has_room(data.len()) => {
                self.spill(&spool, data).await.map_err(|error| no_room(&error))
            }
            None if !self.has_room(data.len()) => Err(Refusal::out_of_memory()),
            _ => {
                self.join(data);
                Ok(())
            }
        }
    }

    /// Counts the memory that is taken once `more` bytes have joined the others; false where there is no room for it.
    fn has_room(&mut self, more: usize) -> bool {
        let capacity = self.capacity(more);
        self.held.count_in_all(capacity)
    }

    /// The memory for the bytes so far and `more`. It grows by doubling up to what the body says it has: room for what was
    /// only announced would be held by whoever never sends it.
    fn capacity(&self, more: usize) -> usize {
        let length = self.first.len() + self.joined.len() + more;
        if self.first.is_empty() && self.joined.is_empty() || length <= self.joined.capacity() {
            return length.max(self.joined.capacity());
        }
        length.max((2 * length).min(self.expected))
    }

    /// The first piece stays as it is; only a body of several pieces is copied together.
    fn join(&mut self, data: Bytes) {
        if self.joined.is_empty() && self.first.is_empty() {
            self.first = data;
            return;
        }
        let capacity = self.capacity(data.len());
        self.joined.reserve(capacity - self.joined.len());
        self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        self.joined.extend_from_slice(&data);
        // An allocator may give more than it was asked for.
        self.held.count_in_all(self.joined.capacity());
    }

    /// Adds what arrived to what is on disk.
    async fn push(&mut self, data: Bytes) -> io::Result<()> {
        let Some(spooled) = &mut self.spooled else { return Ok(()) };
        spooled.push(data).await
    }

    /// Goes on on disk, with what has come so far before `data`.
    async fn spill(&mut self, spool: &Arc<Spool>, data: Bytes) -> io::Result<()> {
        self.spooled = Some(spool.begin().await?);
        let (first, joined) = (std::mem::take(&mut self.first), std::mem::take(&mut self.joined));
        for part in [first, joined.freeze(), data] {
            if !part.is_empty() {
                self.push(part).await?;
            }
        }
        self.held.count_in_all(0);
        Ok(())
    }

    /// All of it.
    async fn whole(mut self) -> Result<BufferedBody, Refusal> {
        if let Some(spooled) = self.spooled.take() {
            let (data, share) = spooled.finish().await.map_err(|error| no_room(&error))?;
            (self.held.data, self.held.on_disk) = (data, Some(share));
        } else {
            let bytes = if self.joined.is_empty() { self.first } else { self.joined.freeze() };
            self.held.data = bytes.into();
        }
        Ok(self.held)
    }
}

/// A body that cannot be kept while it arrives: nothing of it was accepted, so its sender may try again.
fn no_room(error: &io::Error) -> Refusal {
    tracing::warn!(%error, "a body could not be kept while it arrived, and was refused");
    Refusal::out_of_memory()
}

/// When a body is too slow.
struct ThroughputLimit<'d> {
    started: Instant,
    deadlines: &'d Deadlines,
}

impl ThroughputLimit<'_> {
    /// The instant by which more must have come than these bytes: each buys the time that it takes at the least pace, and a body
    /// that comes at a good one may take as long as it is large.
    fn deadline(&self, received: usize) -> Instant {
        let Deadlines { body, body_grace, body_pace, .. } = *self.deadlines;
        let bought = Duration::from_secs_f64(received as f64 / f64::from(body_pace.max(1)));
        let large = Duration::from_secs_f64(received as f64 / GOOD_PACE);
        self.started + body.max(large).min(body_grace.saturating_add(bought))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use value::MemoryFiles;

    use super::*;

    #[test]
    fn memory_is_released_when_the_body_is_dropped() {
        let budget = Budget::new(10, None);
        let mut held = BufferedBody::nothing(&budget);
        assert!(held.count(8));
        assert!(!BufferedBody::nothing(&budget).count(3));
        drop(held);
        assert!(BufferedBody::nothing(&budget).count(10));
    }

    #[tokio::test]
    async fn large_bodies_leave_room_for_small_ones() {
        let budget = Budget::new(1000, None);
        assert!(budget.take_in_time(750, budget.for_small).await);
        let mut second = Box::pin(budget.take_in_time(1, budget.for_small));
        assert!((&mut second).now_or_never().is_none(), "another large one waits");
        assert!(BufferedBody::nothing(&budget).count(250), "a small one does not");
        budget.give_back(1);
        assert!(second.await);
    }

    fn budget(bytes: usize) -> Arc<Budget> {
        Budget::new(bytes, Some(Spool::new(Arc::new(MemoryFiles))))
    }

    async fn in_memory(body: Arriving) -> Result<BufferedBody, Refusal> {
        body.whole().await?.into_memory().await
    }

    #[tokio::test]
    async fn a_large_body_is_spooled_to_disk_while_it_arrives() {
        let budget = budget(3 * SMALL);
        let mut body = Arriving::new(&budget, None);
        let part = Bytes::from(vec![7; SMALL]);
        body.take(part.clone()).await.expect("it is taken");
        assert_eq!(body.held.counted, SMALL, "a small one is in memory");
        body.take(part.clone()).await.expect("it is taken");
        assert_eq!((body.held.counted, budget.left.load(Ordering::Relaxed)), (0, 3 * SMALL));
        let held = body.whole().await.expect("it is there");
        assert_eq!((held.counted, held.is_on_disk(), held.start()), (0, true, vec![7; START]));
        let held = held.into_memory().await.expect("there is room");
        // With the values in it, it takes all that large ones may have.
        assert_eq!(held.counted, 3 * SMALL - budget.for_small);
        assert!(held.bytes() == vec![7; 2 * SMALL]);
        drop(held);
        // One that says how large it is takes none from the start.
        let mut other = Arriving::new(&budget, Some(2 * SMALL as u64));
        other.take(part).await.expect("it is taken");
        assert_eq!(other.held.counted, 0);
    }

    #[test]
    fn small_json_items_are_counted_at_their_parsed_size() {
        let memory = |text: &str| {
            memory_of_values(&Data::from(Bytes::from(text.to_owned()))).expect("it is in memory")
        };
        let numbers = format!("[{}0]", "1,".repeat(100_000));
        let values: value::Value = serde_json::from_str(&numbers).expect("it is JSON");
        assert!(memory(&numbers) >= values.estimated_size(usize::MAX));
        assert!(memory(&numbers) >= 20 * numbers.len());
        let text = "x".repeat(100_000);
        assert_eq!(memory(&text), text.len());
    }

    #[tokio::test]
    async fn a_received_body_waits_for_memory_unless_it_can_never_fit() {
        let budget = budget(SMALL);
        let mut first = BufferedBody::nothing(&budget);
        assert!(first.count(SMALL));
        let mut second = Arriving::new(&budget, None);
        second.take(Bytes::from_static(b"abc")).await.expect("there is room on disk");
        let waiting = tokio::spawn(in_memory(second));
        tokio::task::yield_now().await;
        drop(first);
        let held = waiting.await.expect("no panic").expect("there is room now");
        assert_eq!(held.bytes(), "abc");
        let mut third = Arriving::new(&budget, None);
        for _ in 0..2 {
            third.take(Bytes::from(vec![0; SMALL])).await.expect("there is room on disk");
        }
        assert_eq!(in_memory(third).await.expect_err("there never is").code, "busy");
    }

    #[tokio::test]
    async fn a_body_in_one_chunk_is_not_copied() {
        let data = Bytes::from(vec![1; 100]);
        let mut body = Arriving::new(&budget(SMALL), Some(100));
        body.take(data.clone()).await.expect("it is taken");
        assert_eq!(body.first.as_ptr(), data.as_ptr());
        body.take(Bytes::from_static(b"ab")).await.expect("it is taken");
        assert_eq!((body.joined.len(), body.first.len()), (102, 0));
    }

    #[tokio::test]
    async fn memory_for_a_body_grows_with_received_bytes_and_is_counted() {
        let budget = budget(SMALL);
        let announced = SMALL as u64;
        let mut body = Arriving::new(&budget, Some(announced));
        for _ in 0..3 {
            body.take(Bytes::from(vec![1; 1000])).await.expect("it is taken");
        }
        assert!(body.joined.capacity() < 10_000, "not what was announced: {}", body.joined.capacity());
        assert!(body.held.counted >= body.joined.capacity(), "{} counted", body.held.counted);
        let left = budget.left.load(Ordering::Relaxed);
        assert_eq!(left + body.held.counted, SMALL);
        drop(body);
        assert_eq!(budget.left.load(Ordering::Relaxed), SMALL);
    }

    #[tokio::test]
    async fn a_body_spooled_to_disk_holds_no_uncounted_memory() {
        let budget = budget(20_000);
        let mut bodies: Vec<Arriving> = (0..8).map(|_| Arriving::new(&budget, None)).collect();
        for body in &mut bodies {
            for _ in 0..10 {
                body.take(Bytes::from(vec![1; 1000])).await.expect("there is room on disk");
            }
        }
        let in_memory = |body: &Arriving| body.first.len() + body.joined.capacity();
        let (taken, counted) =
            bodies.iter().fold((0, 0), |sum, body| (sum.0 + in_memory(body), sum.1 + body.held.counted));
        assert!(taken <= counted && counted <= 20_000, "{taken} taken, {counted} counted");
        for body in bodies {
            assert_eq!(body.whole().await.expect("it is there").data().len(), 10_000);
        }
        assert_eq!(budget.left.load(Ordering::Relaxed), 20_000);
    }

    #[tokio::test]
    async fn received_bytes_extend_the_deadline_by_the_minimum_throughput() {
        let deadlines = Deadlines::default();
        let pace = ThroughputLimit { started: Instant::now(), deadlines: &deadlines };
        let at = |received| (pace.deadline(received) - pace.started).as_secs_f64();
        assert_eq!([at(0), at(1024), at(10 << 10), at(1 << 20)], [5.0, 6.0, 15.0, 30.0]);
        assert_eq!(at(200 << 20), 800.0, "a large one that comes well");
    }
}
