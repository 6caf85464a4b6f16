//! Generates the text of Automations.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::program::Start;
use super::random::Random;

/// Maximum number of steps in a list.
const MAX_STEPS: u32 = 4;
/// Expression of the caller's value `k`.
const K: &str = "trigger.results.body.data.k";

/// State of the generator of one Automation.
struct Writer<'a> {
    random: &'a mut Random,
    count: u32,
    start: Start,
    /// True if it may call the other Automation.
    calls: bool,
    /// True if it has a `respond` step, which may occur once.
    answered: bool,
}

/// Generates the main Automation.
pub(super) fn main(start: Start, random: &mut Random) -> Value {
    let mut writer = Writer { random, count: 0, start, calls: true, answered: false };
    let trigger = match start {
        Start::Manual => json!({"manual": {}}),
        Start::Async => json!({"webhook": {"verify": "none"}}),
        Start::Sync => json!({"webhook": {"verify": "none", "mode": "sync"}}),
    };
    let mut file = json!({"trigger": trigger, "steps": writer.list(0)});
    if writer.random.one_in(3) {
        let second = match start {
            Start::Sync => json!({"id": SECOND, "webhook": {"verify": "none", "mode": "sync"}}),
            Start::Manual | Start::Async => json!({"id": SECOND, "webhook": {"verify": "none"}}),
        };
        with_second(&mut file, second);
    }
    if writer.random.one_in(3) {
        file["concurrency"] = writer.concurrency();
    }
    if start != Start::Sync && writer.random.one_in(4) {
        file["retry"] = json!({"max": 1, "delay": writer.random.pick(&["1s", "10m"])});
    }
    if writer.random.one_in(3) {
        file["onError"] = json!([writer.act(None)]);
    }
    if writer.random.one_in(3) {
        file["finally"] = json!([writer.act(None)]);
    }
    file["timeout"] = writer.random.pick(&["1m", "1h"]).into();
    file
}

/// Generates the Automation that is called by the main one and run manually.
pub(super) fn child(random: &mut Random) -> Value {
    let mut writer = Writer { random, count: 100, start: Start::Manual, calls: false, answered: false };
    let mut steps = vec![writer.act(None)];
    if writer.random.one_in(2) {
        let pause = writer.random.pick(&["1s", "20m"]);
        steps.push(json!({"id": writer.id(), "wait": pause}));
        steps.push(writer.act(None));
    }
    let mut file = json!({"trigger": {"manual": {}}, "steps": steps, "timeout": "1m"});
    if writer.random.one_in(3) {
        file["concurrency"] = json!({"limit": 1});
    }
    file
}

/// Generates the Automation with a schedule.
pub(super) fn clock(random: &mut Random) -> Value {
    let mut writer = Writer { random, count: 200, start: Start::Manual, calls: false, answered: false };
    let trigger = json!({"schedule": {"cron": "0 * * * *", "misfire": "all", "overlap": "allow"}});
    let mut file = json!({"trigger": trigger, "steps": [writer.act(None)], "timeout": "1m"});
    if writer.random.one_in(2) {
        let second = json!({"id": SECOND, "schedule": file["trigger"]["schedule"]});
        with_second(&mut file, second);
    }
    file
}

/// The id of a second trigger in the first version of a file, and in the other one.
pub(super) const SECOND: &str = "second";
pub(super) const RENAMED: &str = "renamed";
/// The id of a third trigger that only the other version of a file has.
pub(super) const ADDED: &str = "added";

/// Generates what the steps of a file have in common.
pub(super) fn defaults(random: &mut Random) -> Value {
    let retry = json!({"max": 1, "delay": random.pick(&["1s", "4m"])});
    json!({"timeout": random.pick(&["25s", "2m"]), "retry": retry})
}

/// Gives a file with one trigger a second one.
fn with_second(file: &mut Value, second: Value) {
    let Some(entries) = file.as_object_mut() else { return };
    let mut main = entries.remove("trigger").unwrap_or_default();
    main["id"] = "main".into();
    entries.insert("triggers".to_owned(), json!([main, second]));
}

/// Makes the other version of a file: its second trigger has another id, and a third one follows. Returns true if it has a second one.
pub(super) fn change_triggers(file: &mut Value) -> bool {
    let Some(triggers) = file.get_mut("triggers").and_then(Value::as_array_mut) else { return false };
    let Some(second) = triggers.get_mut(1) else { return false };
    second["id"] = RENAMED.into();
    let mut added = second.clone();
    added["id"] = ADDED.into();
    triggers.push(added);
    true
}

/// The name of the event that starts executions, and the Automations that it starts.
pub(super) const TOLD: &str = "told";
pub(super) const CONSUMERS: [&str; 2] = ["hear", "note"];

/// Renames the event of some steps to [`TOLD`].
pub(super) fn tell_consumers(file: &mut Value, random: &mut Random) {
    match file {
        Value::Object(entries) => {
            let emits = entries.get("action").is_some_and(|action| action == "events.emit");
            if emits && random.one_in(2) {
                entries["with"]["name"] = TOLD.into();
            }
            entries.values_mut().for_each(|inner| tell_consumers(inner, random));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| tell_consumers(inner, random)),
        _ => {}
    }
}

/// Generates an Automation that the event [`TOLD`] starts. With `chain` it sends the event too.
pub(super) fn consumer(number: u32, chain: bool, random: &mut Random) -> Value {
    let count = 300 + 100 * number;
    let mut writer = Writer { random, count, start: Start::Manual, calls: false, answered: false };
    let mut steps = vec![writer.act(None)];
    if chain {
        let with = json!({"name": TOLD, "data": 2});
        steps.push(json!({"id": writer.id(), "action": "events.emit", "with": with}));
    }
    let mut file = json!({"trigger": {"event": TOLD}, "steps": steps, "timeout": "1m"});
    if writer.random.one_in(3) {
        file["concurrency"] = json!({"limit": 1});
    }
    file
}

/// The Automation that hears of failed executions.
pub(super) const HANDLER: &str = "handler";

/// Generates [`HANDLER`].
pub(super) fn handler() -> Value {
    let trigger = json!({"event": "cogwork.failure", "with": {"kinds": ["execution"]}});
    json!({"trigger": trigger, "steps": [{"id": "heard", "set": {"heard": 1}}]})
}

/// The Automation that hears of changes of [`CHANGED`].
pub(super) const CHANGES: &str = "changes";
pub(super) const CHANGED: [&str; 2] = ["main", "child"];

/// Generates [`CHANGES`].
pub(super) fn changes() -> Value {
    let trigger = json!({"event": "cogwork.changed", "with": {"automations": CHANGED}});
    json!({"trigger": trigger, "steps": [{"id": "heard", "set": {"heard": 1}}]})
}

/// The Automations that hear that [`QUIET_AUTOMATION`] does not succeed, and that the event `go` does not come, for [`SILENCE`].
pub(super) const SILENCES: [&str; 2] = ["silence", "quiet"];
pub(super) const QUIET_AUTOMATION: &str = "child";
pub(super) const SILENCE: SignedDuration = SignedDuration::from_hours(1);

/// Generates one of [`SILENCES`].
pub(super) fn silence(name: &str) -> Value {
    let mut with = match name == SILENCES[0] {
        true => json!({"automations": [QUIET_AUTOMATION]}),
        false => json!({"event": "go"}),
    };
    with["within"] = format!("{}s", SILENCE.as_secs()).into();
    let trigger = json!({"event": "cogwork.missing", "with": with});
    json!({"trigger": trigger, "steps": [{"id": "heard", "set": {"heard": 1}}]})
}

/// Generates the Automation whose step kills the process.
pub(super) fn poison() -> Value {
    let step = json!({"id": "kill", "action": "http.request",
        "with": {"method": "POST", "url": "http://sim/${{ execution.id }}/kill/poison"}});
    json!({"trigger": {"manual": {}}, "steps": [step]})
}

impl Writer<'_> {
    fn id(&mut self) -> String {
        self.count += 1;
        format!("s{}", self.count)
    }

    fn list(&mut self, depth: u32) -> Value {
        let count = 1 + self.random.below(MAX_STEPS - depth);
        let mut steps: Vec<Value> = Vec::new();
        for _ in 0..count {
            let before = steps.last().and_then(|step: &Value| Some(step["id"].as_str()?.to_owned()));
            steps.push(self.step(before.as_deref(), depth));
        }
        steps.into()
    }

    fn step(&mut self, before: Option<&str>, depth: u32) -> Value {
        let mut step = self.main_step(before, depth);
        if self.random.one_in(5) {
            let mut closing = self.act(None);
            closing["with"]["body"] = "${{ outcome.status }}".into();
            step["finally"] = json!([closing]);
        }
        step
    }

    fn main_step(&mut self, before: Option<&str>, depth: u32) -> Value {
        let kind = self.random.below(if depth < 2 { 21 } else { 12 });
        let id = self.id();
        match kind {
            0..=4 => self.act(before),
            5 => json!({"id": id, "set": {id.as_str(): 1}}),
            6 => json!({"id": id, "wait": self.random.pick(&["500ms", "3s", "2h"])}),
            7 => {
                let timeout = self.random.pick(&["1s", "30m"]);
                json!({"id": id, "waitFor": {"event": "go"}, "timeout": self.computed(timeout.into()),
                       "onTimeout": self.random.pick(&["continue", "continue", "fail"])})
            }
            8 => json!({"id": id, "action": "state.increment", "with": {"key": "n"}}),
            9 if self.calls => {
                let mut step = json!({"id": id, "call": "child", "onError": "continue"});
                if self.random.one_in(3) {
                    step["call"] = json!({"id": "${{ 'child' }}", "of": ["child"]});
                }
                match self.random.below(3) {
                    0 => step["async"] = true.into(),
                    1 => step["retry"] = json!({"max": 1, "delay": "5m", "on": ["all"]}),
                    _ => {}
                }
                step
            }
            11 if self.start == Start::Sync && depth == 0 && !self.answered => {
                self.answered = true;
                match self.random.below(2) {
                    0 => json!({"id": id, "respond": {"status": 201, "body": id}}),
                    // Ends half of the executions with the answer.
                    _ => json!({"id": id, "if": self.condition(),
                                "stop": {"result": id, "respond": {"status": 201, "body": id}}}),
                }
            }
            9..=11 => json!({"id": id, "action": "events.emit", "with": {"name": "go", "data": 1}}),
            _ => self.step_with_lists(kind, &id, depth),
        }
    }

    fn step_with_lists(&mut self, kind: u32, id: &str, depth: u32) -> Value {
        match kind {
            12 => {
                let mut steps = self.list(depth + 1);
                if let Some(steps) = steps.as_array_mut().filter(|_| self.random.one_in(3)) {
                    let result = json!({"result": "${{ index }}"});
                    steps.insert(0, json!({"id": self.id(), "if": "index == 1", "continue": result}));
                }
                json!({"id": id, "forEach": [1, 2, 3], "steps": steps})
            }
            13 => json!({"id": id, "forEach": [1, 2, 3], "concurrency": self.computed(2.into()),
                         "steps": self.list(depth + 1)}),
            14 => {
                let delay = self.random.pick(&["1s", "15m"]);
                let repeat = json!({"max": self.computed(2.into()), "delay": self.computed(delay.into())});
                json!({"id": id, "repeat": repeat, "steps": self.list(depth + 1)})
            }
            15 | 16 => {
                let lists = json!({"a": self.list(depth + 1), "b": self.list(depth + 1)});
                let mut step = json!({"id": id, "parallel": lists});
                if self.random.one_in(4) {
                    step["enough"] = 1.into();
                }
                step
            }
            17 => json!({"id": id, "steps": self.list(depth + 1), "timeout": self.computed("50m".into()),
                         "retry": {"max": self.computed(1.into()), "delay": self.computed("2s".into()),
                                   "on": ["all"]},
                         "onError": [self.act(None)]}),
            18 => json!({"id": id, "if": self.condition(), "then": self.list(depth + 1),
                         "else": self.list(depth + 1)}),
            19 => match self.random.below(2) {
                0 => json!({"id": id, "switch": "execution.attempt", "cases": {"1": self.list(depth + 1)},
                            "default": self.list(depth + 1)}),
                _ => json!({"id": id, "switch": [{"if": self.condition(), "then": self.list(depth + 1)},
                                                 {"name": "other", "if": "execution.attempt < 3",
                                                  "then": self.list(depth + 1)}],
                            "default": self.list(depth + 1)}),
            },
            _ => {
                let (fails, next) = (self.id(), self.id());
                let fail = json!({"message": "oh", "kind": "own", "data": {"of": fails.as_str()}});
                let fail = if self.random.one_in(2) { fail } else { json!("oh") };
                let after = json!({"id": next, "if": format!("not steps.{fails}.ok"), "set": {"oh": 1}});
                json!({"id": id, "steps": [self.act(None), {"id": fails, "fail": fail}],
                       "onError": [after, self.act(Some(&next))]})
            }
        }
    }

    fn condition(&self) -> String {
        match self.start {
            Start::Manual => "execution.attempt == 1".to_owned(),
            Start::Async | Start::Sync => format!("{K} == 0"),
        }
    }

    /// Returns a setting as it is, or as an expression with its value.
    fn computed(&mut self, value: Value) -> Value {
        if self.random.one_in(2) {
            return value;
        }
        format!("${{{{ {} }}}}", value.to_string().replace('"', "'")).into()
    }

    fn concurrency(&mut self) -> Value {
        let limit = self.random.pick(&[1, 1, 2]);
        let limit = self.computed(limit.into());
        let policies: &[&str] = match self.start {
            Start::Sync => &["skip", "cancelRunning"],
            _ => &["queue", "queue", "skip", "cancelRunning"],
        };
        let mut concurrency = json!({"limit": limit, "policy": self.random.pick(policies)});
        if self.start != Start::Manual && self.random.one_in(2) {
            concurrency["key"] = format!("${{{{ {K} }}}}").into();
        }
        concurrency
    }

    /// Generates a step with an effect. It sends the result of the previous step.
    fn act(&mut self, before: Option<&str>) -> Value {
        let id = self.id();
        let once = self.random.one_in(6);
        // Results of read-only calls are committed later.
        let method = self.random.pick(&["POST", "POST", "GET"]);
        let mut with = json!({"method": method, "url": address(&id, once)});
        if let Some(before) = before {
            with["body"] = format!("${{{{ steps.{before}.results }}}}").into();
        }
        let mut step = json!({"id": id, "action": "http.request", "with": with});
        if once {
            step["onInterrupt"] = "fail".into();
        }
        if self.random.one_in(3) {
            let (max, delay) = (self.random.below(2) + 1, self.random.pick(&["1s", "5m"]));
            step["retry"] = match self.random.below(3) {
                0 => json!([{"max": 1, "delay": "2s", "if": "error.kind == 'network'"},
                            {"max": max, "delay": delay, "on": ["all"]}]),
                _ => json!({"max": max, "delay": delay, "on": ["all"]}),
            };
        }
        if self.random.one_in(3) {
            step["timeout"] = "20s".into();
        }
        if self.random.one_in(4) {
            let id = self.id();
            let steps = json!([{"id": id, "action": "http.request",
                "with": {"method": "POST", "url": address(&id, false)}}]);
            step["undo"] = match self.random.below(3) {
                0 => steps,
                1 => json!({"when": "begun", "steps": steps}),
                _ => json!({"when": self.random.pick(&["done", "begun"]), "onCancel": true, "steps": steps}),
            };
        }
        match self.random.below(4) {
            0 => step["onError"] = "continue".into(),
            1 => {
                let id = self.id();
                step["onError"] = json!([{"id": id, "set": {id.as_str(): "${{ error.kind }}"}}]);
            }
            _ => {}
        }
        step
    }
}

/// Builds the URL of an effect with the facts that the oracle needs.
fn address(id: &str, once: bool) -> String {
    let tail = if once { "/once" } else { "" };
    format!("http://sim/${{{{ execution.id }}}}/{id}{tail}")
}
