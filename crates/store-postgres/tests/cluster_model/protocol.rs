//! The protocol between the nodes of a store on PostgreSQL, reduced to the parts that its guarantees depend on.
//!
//! A process sends one write at a time through its lane. A write that is under way commits at any later moment, or never, also when its
//! process has crashed, has lost its connection or was declared dead: that covers a process or a network that hangs.
//! A node can be declared dead at any moment: that covers every error of clocks and beats.
//!
//! Numbers of batches are relative. A lane has committed the batch that its process sent last, or has not; every older batch is late.

use stateright::{Model, Property};

use crate::database::{
    ACCEPTED, Database, EXECUTIONS, Execution, LaneRow, Letter, Live, Membership, NODES, Node, Rows, Write,
};

/// The number of events, without signals, of an execution whose next event is the last.
const BEGUN: u8 = 2;
/// The node that sends a letter to the first execution.
const SENDER: Node = 2;

/// A variant of the protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    /// The executions that share a concurrency limit of 1, and with it the shard.
    pub(crate) gated: [bool; EXECUTIONS],
    /// A node sends a letter to the first execution.
    pub(crate) letter: bool,
    /// A transaction of a lane fails unless it is the next batch of a lane that is not dead.
    pub(crate) fence: bool,
    /// A gated execution waits until its node has read all executions of the shard.
    pub(crate) holds_back: bool,
    /// The maximum number of processes that crash or leave.
    pub(crate) crashes: u8,
}

/// An execution in the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    events: u8,
    has_signal: bool,
    /// It has its permit, if it needs one, and its step has been started.
    runs: bool,
}

/// A daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    is_running: bool,
    /// The write whose outcome it does not know yet.
    sent: Option<Write>,
    /// It owns the shard and has all executions of it in memory.
    has_shard: bool,
    /// The gated executions that it has accepted, and that wait until it has the shard.
    held_back: [bool; EXECUTIONS],
    tasks: [Option<Task>; EXECUTIONS],
}

/// A batch on its way to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Batch {
    node: Node,
    write: Write,
    /// Its process has sent it again, or has gone on to the next one.
    is_late: bool,
}

/// The database, the processes and the network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) database: Database,
    processes: [Process; NODES],
    /// Sorted, without repetitions.
    under_way: Vec<Batch>,
    crashes: u8,
    /// The executions acknowledged to the caller.
    pub(crate) acknowledged: [bool; EXECUTIONS],
    /// The delivery was acknowledged to the sender.
    pub(crate) taken: bool,
    /// A node has given up the shard.
    given: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Send(Node, Write),
    /// The database runs a batch. Its answer reaches the process, or is lost.
    Run {
        batch: Batch,
        answers: bool,
    },
    /// A process that has lost its connection sends its batch again, while the first copy is still under way.
    SendAgain(Node),
    /// A process that has lost its connection reads that its batch was committed.
    Recall(Node),
    StartStep(Node, Execution),
    /// A process loads the executions handed over to it.
    ReadHanded(Node),
    ReadReply,
    DeclareDead(Node),
    Crash(Node),
    Leave(Node),
}

impl Protocol {
    /// Returns the writes that a process may send.
    fn writes(&self, state: &State, node: Node) -> Vec<Write> {
        let (database, process) = (&state.database, &state.processes[node]);
        let mut writes = Vec::new();
        let mut offer = |condition: bool, write| writes.extend(condition.then_some(write));
        // Each execution has a caller, which sends it to the node of its number.
        if node < EXECUTIONS {
            offer(database.executions[node].accepted == 0, Write::Accept(node));
        }
        for (execution, task) in process.tasks.iter().enumerate() {
            let Some(task) = task else { continue };
            let append = |is_signal, ends| Write::Append { execution, first: task.events, is_signal, ends };
            offer(task.runs, append(false, task.events - u8::from(task.has_signal) >= BEGUN));
            if execution == 0 && database.letter == Letter::Open {
                offer(true, if task.has_signal { Write::AnswerLetter } else { append(true, false) });
            }
        }
        offer(database.has_orphans(), Write::TakeOver);
        if self.has_shard() {
            offer(database.is_shard_free(), Write::TakeShard);
            let gives_up = database.shard == Some(node) && !state.given && !database.has_gated();
            offer(gives_up, Write::GiveUpShard);
        }
        offer((0..NODES).any(|dead| database.is_forgettable(dead)), Write::ForgetDead);
        let is_sender = self.letter && node == SENDER && database.letter == Letter::None;
        offer(is_sender && database.executions[0].live.is_some(), Write::SendLetter);
        writes
    }

    fn has_shard(&self) -> bool {
        self.gated.contains(&true)
    }

    /// Records in a process that its write was committed or refused, and continues with the next batch.
    fn learn(&self, state: &mut State, node: Node, write: Write, is_done: bool) {
        let (process, database) = (&mut state.processes[node], &state.database);
        match write {
            Write::Accept(execution) if is_done => {
                state.acknowledged[execution] = true;
                let is_own = |live: Live| live.owner == Some(node) && !live.handed;
                if !database.executions[execution].live.is_some_and(is_own) {
                    // Another node has it.
                } else if self.gated[execution] && !process.has_shard && self.holds_back {
                    process.held_back[execution] = true;
                } else {
                    let runs = !self.gated[execution];
                    let task = Task { events: ACCEPTED, has_signal: false, runs };
                    process.tasks[execution].get_or_insert(task);
                }
            }
            Write::Append { execution, first, is_signal, ends } => {
                let task = process.tasks[execution].filter(|_| is_done && !ends);
                process.tasks[execution] = task.map(|task| {
                    let has_signal = task.has_signal || is_signal;
                    Task { events: first + 1, has_signal, ..task }
                });
            }
            Write::GiveUpShard => process.has_shard = database.shard == Some(node),
            _ => {}
        }
        process.sent = None;
        state.database.lanes[node].has_committed = false;
        for batch in &mut state.under_way {
            batch.is_late |= batch.node == node;
        }
        // The fence refuses late batches whenever they run.
        state.under_way.retain(|batch| !(self.fence && batch.is_late));
        state.sort();
    }

    /// Finds out from the rows if a write that was committed did something.
    fn recall(database: &Database, write: Write) -> bool {
        match write {
            Write::Append { execution, first, .. } => {
                database.executions[execution].live.is_none_or(|live| live.events > first)
            }
            _ => true,
        }
    }

    /// Runs a batch in the database.
    fn run(&self, state: &mut State, batch: Batch, answers: bool) -> Option<()> {
        state.under_way.retain(|other| *other != batch);
        let Batch { node, write, is_late } = batch;
        let is_awaited = !is_late && state.processes[node].is_running;
        let lane = state.database.lanes[node];
        if self.fence && (is_late || lane.is_dead || lane.has_committed) {
            return (!answers).then_some(());
        }
        let is_done = state.database.run(node, write);
        state.database.lanes[node].has_committed |= !is_late;
        if is_awaited && answers {
            self.learn(state, node, write, is_done);
        }
        // A response without a waiting caller equals no response.
        (is_awaited || !answers).then_some(())
    }

    /// Loads the executions handed over to a node into its process.
    fn read_handed(&self, state: &mut State, node: Node) {
        let (process, database) = (&mut state.processes[node], &state.database);
        process.has_shard = database.shard == Some(node) && process.sent != Some(Write::GiveUpShard);
        for (execution, rows) in database.executions.iter().enumerate() {
            let is_begun = !self.gated[execution] || rows.begun > 0;
            if process.has_shard && std::mem::take(&mut process.held_back[execution]) {
                process.tasks[execution] = Some(Task { events: ACCEPTED, has_signal: false, runs: false });
            }
            if let Some(live) = rows.live.filter(|live| live.handed && live.owner == Some(node)) {
                let task = Task { events: live.events, has_signal: rows.signals > 0, runs: is_begun };
                process.tasks[execution].get_or_insert(task);
            }
        }
    }

    /// Returns true if there is something to read for [`Protocol::read_handed`].
    fn is_handed(&self, state: &State, node: Node) -> bool {
        let (process, database) = (&state.processes[node], &state.database);
        let gets_shard = self.has_shard() && database.shard == Some(node) && !process.has_shard;
        let is_new = |(rows, task): (&Rows, &Option<Task>)| {
            task.is_none() && rows.live.is_some_and(|live| live.handed && live.owner == Some(node))
        };
        (gets_shard && process.sent != Some(Write::GiveUpShard))
            || database.executions.iter().zip(&process.tasks).any(is_new)
    }

    /// Adds the actions of a process that runs.
    fn act(&self, state: &State, node: Node, actions: &mut Vec<Action>) {
        let (process, database) = (&state.processes[node], &state.database);
        let may_end = state.crashes < self.crashes;
        match process.sent {
            None => {
                actions.extend(self.writes(state, node).into_iter().map(|write| Action::Send(node, write)));
                let leaves = may_end && database.nodes[node] == Membership::Alive;
                actions.extend(leaves.then_some(Action::Leave(node)));
            }
            Some(_) if database.lanes[node].has_committed => actions.push(Action::Recall(node)),
            // Behind a fence, a second copy does nothing that the first one would not do.
            Some(_) if !self.fence => actions.push(Action::SendAgain(node)),
            Some(_) => {}
        }
        let has_permit = |(task, gated): (&Option<Task>, bool)| gated && task.is_some_and(|task| task.runs);
        let is_busy = process.tasks.iter().zip(self.gated).any(has_permit);
        for (execution, task) in process.tasks.iter().enumerate() {
            let starts = task.is_some_and(|task| !task.runs) && !(self.gated[execution] && is_busy);
            actions.extend(starts.then_some(Action::StartStep(node, execution)));
        }
        actions.extend(self.is_handed(state, node).then_some(Action::ReadHanded(node)));
        actions.extend(may_end.then_some(Action::Crash(node)));
        let is_answered = self.letter && node == SENDER && database.letter == Letter::Answered;
        actions.extend((is_answered && !state.taken).then_some(Action::ReadReply));
    }
}

impl State {
    fn put(&mut self, node: Node, write: Write, is_late: bool) {
        self.under_way.push(Batch { node, write, is_late });
        self.sort();
    }

    fn sort(&mut self) {
        self.under_way.sort_unstable();
        self.under_way.dedup();
    }

    /// Ends a process, which loses its memory.
    fn stop(&mut self, node: Node) {
        self.processes[node] = Process::default();
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let database = Database {
            nodes: [Membership::Alive; NODES],
            lanes: [LaneRow { is_dead: false, has_committed: false }; NODES],
            executions: [Rows::default(); EXECUTIONS],
            gated: self.gated,
            shard: self.has_shard().then_some(0),
            letter: Letter::None,
        };
        vec![State {
            database,
            processes: [Process { is_running: true, ..Process::default() }; NODES],
            under_way: Vec::new(),
            crashes: 0,
            acknowledged: [false; EXECUTIONS],
            taken: false,
            given: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for node in 0..NODES {
            let is_alive = state.database.nodes[node] == Membership::Alive;
            actions.extend(is_alive.then_some(Action::DeclareDead(node)));
            if state.processes[node].is_running {
                self.act(state, node, actions);
            }
        }
        for batch in &state.under_way {
            actions.extend([true, false].map(|answers| Action::Run { batch: *batch, answers }));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Send(node, write) => {
                let process = &mut state.processes[node];
                process.sent = Some(write);
                if write == Write::GiveUpShard {
                    // Nothing begins in it from here on.
                    process.has_shard = false;
                    state.given = true;
                }
                state.put(node, write, false);
            }
            Action::Run { batch, answers } => self.run(&mut state, batch, answers)?,
            Action::SendAgain(node) => {
                let write = state.processes[node].sent?;
                state.put(node, write, true);
            }
            Action::Recall(node) => {
                let write = state.processes[node].sent?;
                let is_done = Self::recall(&state.database, write);
                self.learn(&mut state, node, write, is_done);
            }
            Action::StartStep(node, execution) => {
                state.processes[node].tasks[execution].as_mut()?.runs = true;
            }
            Action::ReadHanded(node) => self.read_handed(&mut state, node),
            Action::ReadReply => state.taken = true,
            Action::DeclareDead(node) => {
                state.database.nodes[node] = Membership::Dead;
                state.database.lanes[node].is_dead = true;
                if self.fence {
                    // Its batch that is under way is refused, so that nobody notices the process any more.
                    state.stop(node);
                }
            }
            Action::Crash(node) => {
                state.crashes += 1;
                state.stop(node);
            }
            Action::Leave(node) => {
                state.crashes += 1;
                state.database.nodes[node] = Membership::Dead;
                state.stop(node);
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::rules::rules()
    }
}
