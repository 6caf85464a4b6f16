//! The texts of new automations by the kind of their trigger, and of their first tests.

pub(super) const WEBHOOK: &str = r#"# A request to its address starts it. `cogwork serve` and `cogwork list` print the address.
trigger:
  webhook:
    # async: the caller gets an executionId at once.
    # sync: the caller waits, and a `respond` step decides the answer.
    mode: async
    methods: [POST]
    verify: none

# The steps run from top to bottom. ${{ }} holds an expression, evaluated when the step runs.
steps:
  - id: order
    set:
      # The request: trigger.results.body.data, .headers, .queryParameters, .pathFragment
      id: ${{ trigger.results.body.data.id | default("unknown") }}

  - id: note
    action: log.info
    with:
      message: Order ${{ vars.id }} has come

# The result; by default it is the result of the last step.
outputs:
  order: ${{ vars.id }}
"#;

pub(super) const SCHEDULE: &str = r#"# A schedule starts it.
trigger:
  schedule:
    # Also: every: 5m, hourly: {minute: 5}, weekly: {on: [mon, fri], at: "08:30"}, cron: "*/5 8-16 * * 1-5"
    daily: {at: "08:30"}
    timezone: UTC

# The steps run from top to bottom. ${{ }} holds an expression, evaluated when the step runs.
steps:
  - id: note
    action: log.info
    with:
      message: It was due at ${{ trigger.results.scheduledAt }}

# The result; by default it is the result of the last step.
outputs:
  dueAt: ${{ trigger.results.scheduledAt }}
"#;

pub(super) const POLL: &str = r#"# Nothing is polled before this line is gone: write your own address first.
enabled: false

# New data in the results of an action starts it.
trigger:
  poll:
    action: http.request
    with: {url: "https://shop.example.com/orders?sort=newest"}
    every: 5m
    # The list of items, and the value that identifies an item.
    items: result.body.orders
    id: item.id
    # batch: one execution for all new items, as a list. each: one execution for each item.
    deliver: each

# The steps run from top to bottom. ${{ }} holds an expression, evaluated when the step runs.
steps:
  - id: note
    action: log.info
    with:
      message: Order ${{ trigger.results.body.data.id }} is new

# The result; by default it is the result of the last step.
outputs:
  order: ${{ trigger.results.body.data.id }}
"#;

pub(super) const EVENT: &str = r#"# Fill in the connection first, then remove this line.
enabled: false

# An event in another application starts it; `cogwork connectors show wiki` lists its events.
trigger:
  event: wiki.pageChanged
  connection: {connection}
  every: 5m
  # batch: one execution for all new items, as a list. each: one execution for each item.
  deliver: each

# The steps run from top to bottom. An expression in ${{ }} is evaluated when its step runs.
steps:
  - id: note
    action: log.info
    with:
      message: Page ${{ trigger.results.body.data.record.title }} was ${{ trigger.results.body.data.changeType }}

# The result; without this key it is the result of the last step.
outputs:
  page: ${{ trigger.results.body.data.record.id }}
"#;

pub(super) const OWN_EVENT: &str = r#"# An event of the project starts it: a step of another automation sends it with `action: events.emit`, or somebody with
# cogwork events emit order.paid --data '{"order": "17", "amount": 12.5}'
trigger:
  event: order.paid # cogwork: allow(nobody-sends): remove this comment once a step sends it
  # The fields that it reads. An event without a required one starts an execution that fails.
  data:
    order: {type: text, required: true}
    amount: number
  # Also: if: event.data.amount > 0

# The steps run from top to bottom. An expression in ${{ }} is evaluated when its step runs.
steps:
  - id: note
    action: log.info
    with:
      message: Order ${{ trigger.results.body.data.order }} is paid

# The result; without this key it is the result of the last step.
outputs:
  order: ${{ trigger.results.body.data.order }}
"#;

pub(super) const FAILURE: &str = r#"# It starts when an execution, a poll, a subscription, a schedule, an event or a file has failed: the first failure of a kind at once,
# further ones with the same automation, kind and step once a minute, with their `count`.
trigger:
  event: cogwork.failure
  # Also: with: {kinds: [execution, poll], labels: [billing], automations: [order-desk], after: 3}

# The steps run from top to bottom. An expression in ${{ }} is evaluated when its step runs.
steps:
  # Send it to people in place of this step: `action: mail.send`, or `action: http.post` to the address of a chat.
  - id: alert
    action: log.error
    with:
      message: ${{ trigger.results.title }} (${{ trigger.results.count }} since ${{ trigger.results.since }})

# The result; without this key it is the result of the last step.
outputs:
  told: ${{ trigger.results.title }}
"#;

pub(super) const WIKI: &str = "\
# yaml-language-server: $schema=../schemas/connection.schema.json
#
# A wiki. Steps and triggers name it by the name of this file.
type: wiki.basic
with:
  email: ops@example.com
  # Keep it with: cogwork secrets set wikiToken
  apiToken: ${{ secrets.wikiToken }}
  host: https://acme.example.com
";

pub(super) const MANUAL: &str = r#"# A person or the API starts it.
trigger:
  manual: {}

# Its inputs: cogwork run {id} --input name=Ada --input times=3
inputs:
  name: {type: text, default: world, description: Who is greeted}
  times: {type: integer, default: 1, description: How often}

# The steps run from top to bottom. ${{ }} holds an expression, evaluated when the step runs.
steps:
  - id: greet
    # `if` beside the verb is a guard: the step is skipped if it is false.
    if: inputs.times > 0
    forEach: range(inputs.times)
    steps:
      - id: note
        action: log.info
        with:
          message: Hello, ${{ inputs.name }}!

# The result; by default it is the result of the last step.
outputs:
  greeted: ${{ inputs.name }}
"#;

pub(super) const WEBHOOK_TESTS: &str = r#"tests:
  - name: the order is noted
    payload:
      body: {id: "17"}
    expect:
      result: {order: "17"}
      logs: [Order 17 has come]

  - name: an order without an id has none
    payload:
      body: {}
    expect:
      result: {order: unknown}
"#;

pub(super) const SCHEDULE_TESTS: &str = r#"tests:
  - name: it is due at half past eight
    # The test fails if the schedule does not fire at this instant.
    scheduledAt: 2026-03-02T08:30:00Z
    expect:
      result: {dueAt: "2026-03-02T08:30:00Z"}
"#;

pub(super) const POLL_TESTS: &str = r#"tests:
  - name: a new order is noted
    found: {id: "17"}
    expect:
      result: {order: "17"}
      logs: [Order 17 is new]
"#;

pub(super) const EVENT_TESTS: &str = r#"tests:
  - name: a new page is noted
    found: {changeType: created, record: {id: "17", title: Order 17}}
    expect:
      result: {page: "17"}
      logs: [Page Order 17 was created]
"#;

pub(super) const MANUAL_TESTS: &str = r#"tests:
  - name: each greeting is a line of the log
    inputs: {name: Ada, times: 2}
    expect:
      result: {greeted: Ada}
      logs: ["Hello, Ada!", "Hello, Ada!"]

  - name: it greets the world where nobody is named
    expect:
      steps: {greet: {turns: 1}}

  - name: nobody is greeted no times
    inputs: {times: 0}
    expect:
      steps: {greet: skipped}
"#;

pub(super) const OWN_EVENT_TESTS: &str = r#"tests:
  - name: a paid order is noted
    found: {order: "17", amount: 12.5}
    expect:
      result: {order: "17"}
      logs: [Order 17 is paid]

  - name: an order may come without its amount
    found: {order: "18"}
    expect:
      result: {order: "18"}
"#;

pub(super) const FAILURE_TESTS: &str = r#"tests:
  - name: the failure of an execution is told
    found: {kind: execution, title: Order desk has failed, count: 2}
    expect:
      result: {told: Order desk has failed}
"#;
