//! AMQP. A server takes seconds to start, so each rule that changes nothing of it has a queue of its own on a shared one.

mod actions;
mod broker;
mod faults;
mod hostile;
mod messages;
mod refusals;

use std::pin::Pin;

use broker::Broker;

/// A rule, and its check on a queue of its own.
type Rule = (&'static str, for<'a> fn(&'a Broker, &'a str) -> Pin<Box<dyn Future<Output = ()> + 'a>>);

/// A row of rules by the names of their functions, which are the names of their queues.
macro_rules! rules {
    ($($module:ident::$rule:ident),* $(,)?) => {
        &[$((stringify!($rule), |broker, queue| Box::pin($module::$rule(broker, queue)))),*]
    };
}

const RULES: &[Rule] = rules![
    messages::messages_come_in_order_and_with_all_that_the_server_knows,
    messages::a_settled_message_never_comes_again_and_any_other_does,
    messages::a_message_comes_again_when_its_time_has_come_and_others_go_on,
    messages::one_request_takes_no_more_messages_and_bytes_than_it_may,
    messages::messages_above_the_room_for_them_all_come,
    messages::a_body_above_every_limit_is_cut_and_never_copied,
    messages::the_identity_is_the_message_id_or_that_of_the_content,
    messages::properties_that_cannot_be_read_stop_no_message,
    messages::several_consumers_share_a_queue,
    messages::a_copy_of_a_message_is_published_with_the_reason,
    messages::a_missing_queue_is_an_error_that_names_it,
    messages::a_deleted_queue_is_an_error_of_the_source,
    faults::a_connection_that_is_cut_ends_a_wait_at_once,
    faults::a_lost_acknowledgement_brings_a_message_again,
    faults::a_request_that_the_server_does_not_answer_ends,
    actions::a_message_is_published_with_its_properties,
    actions::a_repeated_step_sends_the_same_message_id,
    actions::a_message_that_no_queue_takes_is_an_error_that_says_so,
    actions::an_error_of_one_step_disturbs_no_other,
    actions::the_server_tells_its_version,
    refusals::a_refused_login_is_an_error_of_the_connection,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_rule_holds_on_a_queue_of_its_own() {
    let Some(broker) = Broker::start() else { return };
    let mut failed = Vec::new();
    for (rule, check) in RULES {
        broker.server.client().create_queue(rule);
        let checked = std::panic::AssertUnwindSafe(check(&broker, rule));
        if futures_util::FutureExt::catch_unwind(checked).await.is_err() {
            failed.push(rule);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
