//! Loops, and lists of steps side by side.

use std::sync::Arc;

use model::action::{ActionError, ErrorKind};
use model::automation::{Block, ForEachStep, ParallelStep, RepeatStep, Step};
use value::{Map, Value};

use super::block::Parallel;
use super::journal::Due;
use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};

/// The error of a loop with `failFast: false` whose every iteration failed by an expression: a mistake of the file, which must
/// not pass as a success.
fn common_expression_error(values: &[Value]) -> Option<ActionError> {
    let error = |value: &Value| {
        let error = value.get("error").filter(|_| value.as_map().is_some_and(|map| map.len() == 1))?;
        let is_mistake = error.get("kind")?.to_text() == ErrorKind::Expression.to_string();
        is_mistake.then(|| error.get("message").map(|message| message.to_text()).unwrap_or_default())
    };
    let first = error(values.first()?)?;
    values.iter().all(|value| error(value).is_some()).then(|| {
        let message =
            format!("every iteration failed by an expression, in spite of `failFast: false`: {first}");
        ActionError::new(ErrorKind::Expression, message)
    })
}

impl Run {
    pub(super) async fn for_each(
        &self,
        each: &ForEachStep,
        key: &str,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let items = self.evaluate(&each.items, scope, "forEach", frame).await?;
        let Some(items) = items.as_list() else {
            let message = format!("`forEach` needs a list, found {}", items.kind());
            return Err(failed(ActionError::new(ErrorKind::Input, message)));
        };
        let limit = self.context.settings.limits.loop_turns;
        if items.len() > limit {
            let message =
                format!("`forEach` over {} items is beyond the limit of {limit} iterations", items.len());
            return Err(failed(ActionError::new(ErrorKind::Limit, message)));
        }
        let values = if each.is_in_order() {
            self.for_each_in_turn(each, items, scope, frame).await?
        } else {
            self.for_each_in_parallel(each, items, key, scope, frame).await?
        };
        if !each.fail_fast
            && let Some(error) = common_expression_error(&values)
        {
            return Err(failed(error));
        }
        Ok(Value::from(values))
    }

    /// Runs up to `concurrency` iterations at once, each in its own scope; also with a computed concurrency of 1, so that the meaning of
    /// the file does not depend on the value.
    async fn for_each_in_parallel(
        &self,
        each: &ForEachStep,
        items: &[Value],
        key: &str,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Vec<Value>, Exit> {
        let mut results: Vec<Option<(Scope, Value)>> =
            std::iter::repeat_with(|| None).take(items.len()).collect();
        let mut gathered = Gathered::new(self.context.settings.limits.result_bytes);
        let outer = &self.cuttable(frame);
        let mut running = Parallel::new(self, outer, key.to_owned(), vec![&each.steps]);
        let mut upcoming = items.iter().enumerate();
        let concurrency = frame.concurrency(each) as usize;
        loop {
            while running.len() < concurrency && !running.is_stopping() {
                let Some((index, item)) = upcoming.next() else { break };
                let mut branch = scope.fork();
                bind_item(&mut branch, each, index, item);
                let frame = outer.turn(index);
                running.push(async move {
                    let value = self.turn(each, &mut branch, &frame).await?;
                    Ok((index, branch, value))
                });
            }
            let Some((index, branch, value)) = running.next().await? else { break };
            if let Err(exit) = gathered.add(&value) {
                running.fail(exit)?;
            }
            results[index] = Some((branch, value));
        }
        let mut values = Vec::with_capacity(results.len());
        for (branch, value) in results.into_iter().flatten() {
            scope.merge(branch);
            values.push(value);
        }
        Ok(values)
    }

    /// Runs the iterations one after the other, so that each can read the variables of the previous one.
    async fn for_each_in_turn(
        &self,
        each: &ForEachStep,
        items: &[Value],
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Vec<Value>, Exit> {
        let outer =
            [each.item.as_ref(), "item", "index"].map(|name| (name.to_owned(), scope.root().get(name)));
        let mut gathered = Gathered::new(self.context.settings.limits.result_bytes);
        let mut values = Vec::with_capacity(items.len().min(1024));
        let mut result = Ok(());
        for (index, item) in items.iter().enumerate() {
            bind_item(scope, each, index, item);
            match self.turn(each, scope, &frame.turn(index)).await {
                Ok(value) => match gathered.add(&value) {
                    Ok(()) => values.push(value),
                    Err(exit) => {
                        result = Err(exit);
                        break;
                    }
                },
                Err(Exit::Break) => break,
                Err(exit) => {
                    result = Err(exit);
                    break;
                }
            }
        }
        for (name, value) in outer {
            match value {
                Some(value) => scope.bind(&name, value),
                None => scope.unbind(&name),
            }
        }
        result.map(|()| values)
    }

    async fn turn(&self, each: &ForEachStep, scope: &mut Scope, frame: &Frame) -> Result<Value, Exit> {
        match self.block(&each.steps, scope, frame).await {
            Err(Exit::Continue(result)) => Ok(result),
            Err(Exit::Failed(error)) if !each.fail_fast => {
                Ok(Value::from(Map::from_iter([("error", error.to_value())])))
            }
            result => result,
        }
    }

    /// Runs a `repeat` until the result of an iteration ends it.
    pub(super) async fn repeat(
        &self,
        step: &Step,
        repeat: &RepeatStep,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let outer = scope.root().get("index");
        let key = frame.key(&step.id);
        let result = self.repeat_turns(step, repeat, &key, scope, frame).await;
        self.journal.loop_ended(&key);
        match outer {
            Some(index) => scope.bind("index", index),
            None => scope.unbind("index"),
        }
        result
    }

    async fn repeat_turns(
        &self,
        step: &Step,
        repeat: &RepeatStep,
        key: &str,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let (mut first, mut last) = (0, Value::Null);
        if let Some(position) = self.journal.loop_position(key) {
            scope.restore(&position);
            (first, last) = (position.turn, position.last);
        }
        let max = frame.max_turns(repeat);
        for index in first..max as usize {
            if self.journal.is_snapshot_due() && scope.is_trunk() && !frame.closing {
                let position = scope.loop_position(key, index, &last);
                self.journal.turn_begins(position, &self.deployment.automation).await?;
            }
            let turn = frame.turn(index);
            if index > 0 {
                self.pause_between(step, repeat, &turn, frame).await?;
            }
            scope.bind("index", Value::from(index));
            last = match self.block(&repeat.steps, scope, &turn).await {
                Ok(value) | Err(Exit::Continue(value)) => value,
                Err(Exit::Break) => return Ok(last),
                Err(exit) => return Err(exit),
            };
            if let Some(until) = &repeat.until
                && self.is_over(step, until, &turn, scope).await?
            {
                return Ok(last);
            }
        }
        if repeat.until.is_none() {
            return Ok(last);
        }
        let message = format!("`until` was still false after {max} iterations");
        Err(failed(ActionError::new(ErrorKind::Limit, message)))
    }

    /// Evaluates `until` after an iteration. It reads the clock and the state of that iteration.
    async fn is_over(
        &self,
        step: &Step,
        until: &expression::Expression,
        turn: &Frame,
        scope: &mut Scope,
    ) -> Result<bool, Exit> {
        let key = format!("{}#until", turn.key(&step.id));
        let reads = self.deployment.plan.reads(&step.id);
        let outer = self.prepare(reads, &key, self.context.clock.now(), scope).await?;
        let holds = self.condition_holds(until, scope, "until", turn).await;
        scope.set_moment(outer);
        holds
    }

    /// Waits before an iteration. The end of the wait is stored, so that a restart neither prolongs nor repeats it.
    async fn pause_between(
        &self,
        step: &Step,
        repeat: &RepeatStep,
        turn: &Frame,
        frame: &Frame,
    ) -> Result<(), Exit> {
        let delay = frame.turn_delay(repeat);
        if delay.is_zero() {
            return Ok(());
        }
        let key = format!("{}#delay", turn.key(&step.id));
        let clock = &self.context.clock;
        let whole = clock.monotonic_now().after(delay);
        let due = self.journal.started_at(&key).map_or(whole, |(_, due)| due.min(whole));
        self.journal.record_start(&key, due.to_wall(clock.wall_offset()), None);
        self.pause_durably(&key, Due::After(due), frame).await
    }

    pub(super) async fn parallel(
        &self,
        branches: &[(Arc<str>, Block)],
        key: &str,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let frame = &self.cuttable(frame);
        let lists = branches.iter().map(|(_, block)| block).collect();
        let mut running = Parallel::new(self, frame, key.to_owned(), lists);
        for (index, (_, block)) in branches.iter().enumerate() {
            let mut branch = scope.fork();
            running.push(async move {
                let value = self.block(block, &mut branch, frame).await?;
                Ok((index, branch, value))
            });
        }
        let mut ended: Vec<Option<(Scope, Value)>> =
            std::iter::repeat_with(|| None).take(branches.len()).collect();
        while let Some((index, branch, value)) = running.next().await? {
            ended[index] = Some((branch, value));
        }
        let mut results = Map::with_capacity(branches.len());
        for ((name, _), (branch, value)) in branches.iter().zip(ended.into_iter().flatten()) {
            scope.merge(branch);
            results.insert(name.clone(), value);
        }
        Ok(Value::from(results))
    }
}

impl Run {
    /// Runs the lists of a `parallel` step until enough of them have succeeded, and cuts off the others. Only the results of the lists
    /// leave them: after a restart, the log does not tell a list that was cut off from a list that had just ended.
    pub(super) async fn race(
        &self,
        step: &Step,
        parallel: &ParallelStep,
        enough: u32,
        key: &str,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let branches = &parallel.branches;
        let frame = &self.cuttable(frame);
        let lists = branches.iter().map(|(_, block)| block).collect();
        let mut running = Parallel::new(self, frame, key.to_owned(), lists);
        for (index, (_, block)) in branches.iter().enumerate() {
            let mut branch = scope.fork();
            running.push(async move {
                match self.block(block, &mut branch, frame).await {
                    Ok(value) => Ok((index, Ok(value))),
                    Err(Exit::Failed(error)) => Ok((index, Err(error))),
                    Err(exit) => Err(exit),
                }
            });
        }
        let enough = (enough as usize).min(branches.len());
        let mut results: Vec<Option<Value>> = vec![None; branches.len()];
        let (mut succeeded, mut left) = (0, branches.len());
        while succeeded < enough {
            let Some((index, ended)) = running.next().await? else { break };
            left -= 1;
            match ended {
                Ok(value) => {
                    results[index] = Some(value);
                    succeeded += 1;
                }
                Err(error) if succeeded + left < enough => {
                    running.cut().await?;
                    return Err(failed(error));
                }
                Err(_) => {}
            }
        }
        running.cut().await?;
        self.abandon_inside(step, key);
        let names = branches.iter().map(|(name, _)| name.clone());
        Ok(Value::from(names.zip(results.into_iter().map(Option::unwrap_or_default)).collect::<Map>()))
    }
}

/// The size of the results that a loop gathers, held against the limit of one result while it grows.
struct Gathered {
    limit: usize,
    bytes: usize,
}

impl Gathered {
    fn new(limit: usize) -> Self {
        Self { limit, bytes: 0 }
    }

    fn add(&mut self, value: &Value) -> Result<(), Exit> {
        self.bytes = self.bytes.saturating_add(value.estimated_size(self.limit)).saturating_add(1);
        if self.bytes <= self.limit {
            return Ok(());
        }
        let limit = text::units::format_size(u64::try_from(self.limit).unwrap_or(u64::MAX));
        let message = format!("the results of the loop are larger than {limit} together");
        Err(failed(ActionError::new(ErrorKind::Limit, message)))
    }
}

/// Binds the item of an iteration and its index.
pub(super) fn bind_item(scope: &mut Scope, each: &ForEachStep, index: usize, item: &Value) {
    scope.bind(&each.item, item.clone());
    if each.item.as_ref() != "item" {
        scope.bind("item", item.clone());
    }
    scope.bind("index", Value::from(index));
}
