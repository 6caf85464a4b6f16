//! Realistic files that load without a word. Between them they use every verb, trigger and setting.

/// Name and text of each.
pub(crate) const GOOD: &[(&str, &str)] = &[
    ("least", "trigger: {manual: {}}\nsteps:\n  - action: log.info\n"),
    (
        "order-to-page",
        r#"# yaml-language-server: $schema=../schemas/automation.schema.json
name: Order to page
description: Creates a wiki page for each order with a quantity.
labels: [orders, wiki]
trigger:
  webhook:
    mode: sync
    methods: [POST, PUT]
    timeout: 45s
    maxBody: 1MiB
    verify: none
  if: trigger.results.body.data.quantity > 0
configVars:
  spaceId: "65538"
  owner: ${{ env.OWNER }}
  _signingKey: {value: "${{ secrets.signing }}", secret: true}
steps:
  - id: createPage
    name: Create the page
    action: wiki.createPage
    connection: mainWiki
    retry: {max: 3, delay: 2s, backoff: 1.5, maxDelay: 1m, on: [network, 5xx, 429]}
    timeout: 20s
    with:
      spaceId: ${{ configVars.spaceId }}
      title: Order ${{ trigger.results.body.data.orderId }}
      body: {value: "<p>${{ trigger.results.body.data.quantity }} pieces</p>"}
  - respond:
      status: 201
      contentType: application/json
      headers:
        x-page: ${{ steps.createPage.results.id }}
        x-count: 1
      body: {page: "${{ steps.createPage.results.id }}"}
outputs:
  page: ${{ steps.createPage.results.id }}
  owner: ${{ configVars.owner }}
"#,
    ),
    (
        "nightly-report",
        r#"id: nightly-report
trigger:
  schedule: {daily: {at: "23:30"}, timezone: Europe/Berlin, misfire: skip, overlap: queue}
timeout: 1h30m
retry: 2
concurrency: {limit: 1, policy: cancelRunning}
retention: {days: 30, keepFailed: true}
steps:
  - id: list
    action: wiki.listPagesInSpace
    connection: mainWiki
    with: {spaceId: 65538, limit: 250, bodyFormat: storage}
    debug: true
  - id: each
    forEach: steps.list.results.results
    as: page
    concurrency: 5
    failFast: false
    steps:
      - set:
          title: ${{ page.title | upper }}
          place: ${{ index }}
      - action: log.info
        with: {message: "${{ vars.place }}: ${{ vars.title }}"}
onError:
  - action: log.error
    with: {message: "${{ error.message }}"}
finally:
  - action: log.info
    with: {message: done}
"#,
    ),
    (
        "branches",
        r"trigger:
  manual:
inputs:
  size: {type: choice, options: [small, large], default: small, description: How large}
  count: {type: integer, required: true}
  tags: {type: list, default: [a, b]}
  extra: {type: object}
  other: {default: 3}
  ratio: {type: number, default: 0.5}
  loud: {type: boolean, default: false}
steps:
  - if: inputs.size == 'large'
    then:
      - if: ${{ inputs.count > 3 }}
        then:
          - fail: too many (${{ inputs.count }})
        else:
          - set: {answer: 1}
    else:
      - stop:
          result: {size: small, tags: '${{ inputs.tags }}'}
  - action: log.info
    if: inputs.loud
    with: {message: '${{ inputs }}'}
",
    ),
    (
        "side-by-side",
        r"trigger: {schedule: {every: 5m}}
steps:
  - id: fetch
    parallel:
      pages:
        - action: wiki.listPagesInSpace
          connection: mainWiki
          with: {spaceId: 1}
      comments:
        - id: comments
          action: http.request
          with:
            url: https://example.com/comments
            headers: {accept: application/json}
          onError: continue
  - set:
      both: [1, '${{ steps.fetch.results.pages }}', {deep: '${{ steps.fetch.results.comments }}'}]
      none: null
      big: 9007199254740993
      half: 0.5
",
    ),
    (
        "graph",
        r"trigger: {manual: {}}
steps:
  - {id: a, action: log.info, needs: []}
  - {id: b, action: log.info, needs: []}
  - id: c
    needs: [a, b]
    action: log.info
  - id: d
    needs: c
    action: log.info
",
    ),
    (
        "recovering",
        r#"trigger: {schedule: {weekly: {on: [mon, fri], at: "8:05"}}}
steps:
  - id: call
    action: http.request
    with: {url: "https://example.com"}
    retry: 5
    onError:
      - if: error.status == 404
        then:
          - set: {found: false}
        else:
          - fail: ${{ error.message }}
  - action: log.warn
    onError: fail
    with:
      message: >-
        found: ${{ vars.found
        | default(true) }}
"#,
    ),
    (
        "code-in-text",
        r"trigger: {schedule: {hourly: {minute: 5}}}
steps:
  - action: text.split
    with:
      text: |
        first ${{ execution.id }}
        second line with a price of $5 and $${{ marks }}
      separator: \n
",
    ),
    (
        "cron",
        "trigger:\n  schedule: {cron: '*/5 8-16 * * 1-5', timezone: America/New_York}\nsteps:\n  - action: log.info\n",
    ),
    (
        "static-answer",
        r#"trigger:
  webhook:
    methods: POST
    verify: none
    respond:
      status: 202
      contentType: application/json; charset=utf-8
      headers: {X-Accepted: "yes"}
      body: |
        {"accepted": true}
steps:
  - action: log.info
"#,
    ),
    (
        "only-status",
        "trigger:\n  webhook:\n    verify: none\n    respond: {status: 204}\nsteps:\n  - action: log.info\n",
    ),
    (
        "answer-with-file",
        r"trigger: {webhook: {mode: sync, verify: none}}
steps:
  - id: download
    action: http.request
    with: {url: 'https://example.com/logo.png', responseType: binary}
  - respond: {file: '${{ steps.download.results.body }}', contentType: image/png}
  - action: log.info
",
    ),
    (
        "answer-by-branch",
        r"trigger: {webhook: {mode: sync, verify: none}}
concurrency: {limit: 10, key: '${{ trigger.results.body.data.customer }}', policy: skip}
steps:
  - if: trigger.results.body.data.quantity <= 0
    then:
      - respond: {status: 400, json: {error: the quantity is not positive}}
      - stop: {}
  - if: trigger.results.body.data.express
    then:
      - respond: {status: '${{ 200 + 1 }}', body: express}
    else:
      - respond: {body: normal, headers: '${{ {} }}'}
  - action: log.info
",
    ),
    (
        "nested-loops",
        r"trigger: {manual: {}}
enabled: false
steps:
  - forEach: $.trigger.results.body.data.orders[*]
    as: order
    steps:
      - forEach: order.lines
        as: line
        steps:
          - set: {line: '${{ line.sku ~ order.id }}'}
          - if: line.price > 100
            then:
              - action: log.warn
                with: {message: 'dear: ${{ vars.line }}'}
",
    ),
    (
        "names-for-ids",
        r"trigger: {manual: {}}
steps:
  - name: Create the page
    action: log.info
  - action: log.info
    with: {message: '${{ steps.createThePage.results }}'}
  - id: step4
    action: log.info
  - action: log.info
",
    ),
    (
        "every-way",
        r"trigger: {manual: {}}
inputs:
  kind: {type: choice, options: [new, old], required: true}
steps:
  - id: sort
    switch: inputs.kind
    cases:
      new:
        - set: {days: 3}
      old:
        - set: {days: 30}
    default:
      - fail: this kind is not known
  - id: reserve
    timeout: 1h
    onError: continue
    steps:
      - id: book
        call: book-room
        with: {nights: 2}
        onInterrupt: fail
        undo:
          - {call: free-room, async: true}
  - id: poll
    repeat: {until: steps.look.results.body.done, max: 10, delay: 2s}
    steps:
      - id: look
        action: http.request
        retry: 2
        with: {url: 'https://example.com/jobs/${{ index }}'}
      - if: index > 5
        break: true
  - forEach: [1, 2]
    steps:
      - if: item == 1
        continue: true
      - {action: log.info, with: {message: second}}
  - wait: 10s
  - wait: ${{ vars.days ~ 'd' }}
  - wait:
      until: addDuration(now(), '1d')
  - id: paid
    waitFor: {event: 'order-${{ inputs.kind }}', if: event.data.ok}
    timeout: 2d
    onTimeout: continue
  - id: ask
    waitFor:
      approval:
        message: Send it to ${{ inputs.kind }}?
        options: [yes please, not yet]
        form: {reason: {type: text, required: true}}
",
    ),
    (
        "own-events",
        r"trigger:
  event: order.paid
  data:
    order: {type: text, required: true, description: Its number.}
    amount: number
    tags: list
  if: event.data.amount > 0
  inputs: {order: '${{ event.data.order }}'}
inputs: {order: text, last: text}
steps:
  - id: sent
    waitFor: {event: order.sent, if: event.data.order == inputs.order, since: 5m, until: inputs.last}
    onTimeout: continue
  - id: returned
    waitFor: {event: order.returned}
    timeout: 0s
    onTimeout: continue
  - action: events.emit
    with: {name: order.closed, data: {order: '${{ inputs.order }}'}}
",
    ),
    (
        "anchors",
        r"trigger: {webhook: {verify: none}}
steps:
  - action: http.request
    retry: &often {max: 5, delay: 500ms}
    with: {url: 'https://example.com/a'}
  - action: http.request
    retry: *often
    with: {url: 'https://example.com/b'}
",
    ),
    (
        "code",
        r#"trigger:
  webhook:
    verify: none
    code: |
      export default async (context, payload) => ({
        payload,
        response: {statusCode: payload.body.data.quantity > 0 ? 201 : 400},
      });
steps:
  - id: reshape
    code: |
      // ${{ this }} is not an expression here.
      export default async ({logger}, stepResults) => {
        logger.info("x: {{ 1 }}");
        return {data: stepResults.trigger.results.body.data};
      };
    timeout: 2s
    retry: 2
  - code: {file: ./lib/sum.mjs}
"#,
    ),
];

/// Name and text of connections that load without a word.
pub(crate) const GOOD_CONNECTIONS: &[(&str, &str)] = &[
    (
        "mainWiki",
        "type: wiki.basic\ndescription: The company's wiki.\nwith: {email: ops@example.com, apiToken: \"${{ secrets.wikiToken }}\", \
         host: https://acme.example.com}\n",
    ),
    ("plain-one", "type: http.bearer\n"),
];
