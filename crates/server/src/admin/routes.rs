//! The table of the API: one row registers a route and describes it, so the two cannot part.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::routing::{MethodFilter, MethodRouter, on};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate as _, SizeAbove};
#[cfg(test)]
use utoipa::openapi::HttpMethod;
use utoipa_axum::{PathItemExt as _, paste};

use super::Api;
use super::auth::guard::{self, Need, Rule};
use super::auth::scope::Scope;
use super::auth::{audit, login, session, tokens};
use super::definitions::{automations, connections, connectors, deployments, plan, versions};
use super::executions::{
    bulk, execution, execution_list, export, follow, import, input, replay, trials, turns, values, waiting,
};
use super::files::{assist, editing, project_files, test_drafts, ui};
use super::operations::{hosts, metrics, nodes, notices, secrets, state, statistics, status, stream};
use super::triggers::{
    addresses, listening, messages, moves, own_events, polls, saved_payloads, subscriptions,
};

/// The size in bytes above which an answer is compressed, if the client takes that.
const COMPRESSED_FROM: u64 = 1024;

/// Makes the router of a table. A row is what one path leads to: each handler after the [`Need`] of its route and, if it changes
/// something, the word for that in the audit log. A handler says for itself by which path and with which method. The tests describe the
/// same rows (`description`).
macro_rules! table {
    ($($need:ident $($act:literal)? $first_in:ident::$first:ident
        $(, $more_need:ident $($more_act:literal)? $more_in:ident::$more:ident)*;)+) => {
        fn routed() -> axum::Router<Arc<Api>> {
            paste! {
                axum::Router::new()$(.route(
                    &<$first_in::[<__path_ $first>] as utoipa::Path>::path(),
                    guarded::<$first_in::[<__path_ $first>], _, _>(rule!($need $($act)?), $first_in::$first)
                        $(.merge(guarded::<$more_in::[<__path_ $more>], _, _>(
                            rule!($more_need $($more_act)?), $more_in::$more,
                        )))*,
                ))+
            }
        }

        /// Adds each operation to the description of the API.
        #[cfg(test)]
        pub(super) fn described(head: utoipa::openapi::OpenApi) -> utoipa_axum::router::OpenApiRouter<Arc<Api>> {
            utoipa_axum::router::OpenApiRouter::with_openapi(head)
                $(.routes(utoipa_axum::routes!($first_in::$first $(, $more_in::$more)*)))+
        }

        /// Each operation with its rule.
        #[cfg(test)]
        pub(super) fn rules() -> Vec<(String, Vec<HttpMethod>, Rule)> {
            paste! {
                vec![$(
                    row::<$first_in::[<__path_ $first>]>(rule!($need $($act)?)),
                    $(row::<$more_in::[<__path_ $more>]>(rule!($more_need $($more_act)?)),)*
                )+]
            }
        }
    };
}

macro_rules! rule {
    ($need:ident) => {
        Rule { need: need!($need), action: None }
    };
    ($need:ident $action:literal) => {
        Rule { need: need!($need), action: Some($action) }
    };
}

macro_rules! need {
    (Nothing) => {
        Need::Nothing
    };
    (Credential) => {
        Need::Credential
    };
    ($scope:ident) => {
        Need::Scope(Scope::$scope)
    };
}

table! {
    Read status::status;
    Write "reload" status::reload;
    Read plan::plan, Read plan::plan_of;
    Read status::validate;
    Read automations::list;
    Read automations::show;
    Run "start" automations::run;
    Read versions::versions;
    Read versions::show;
    Secrets "pair" automations::pair, Read automations::pairing;
    Write "enable" editing::enable;
    Write "disable" editing::disable;
    Read statistics::refusals;
    Read statistics::statistics;
    Run "listen" listening::listen, Read listening::captures, Run "stopListening" listening::stop;
    Read saved_payloads::payloads, Write "savePayload" saved_payloads::save;
    Read saved_payloads::preview;
    Read saved_payloads::payload, Write "savePayload" saved_payloads::put, Write "deletePayload" saved_payloads::delete;
    Write "renamePayload" saved_payloads::rename;
    Secrets "rotateAddress" addresses::rotate;
    Read subscriptions::list;
    Run "trySubscription" subscriptions::attempt;
    Write "forgetSubscription" subscriptions::forget;
    Write "moveTrigger" moves::relocate;
    Read own_events::list;
    Read own_events::kept;
    Read messages::sources;
    Read messages::list;
    Read messages::show, Write "dropMessage" messages::drop_one;
    Run "retryMessage" messages::retry;
    Read polls::list;
    Read polls::show;
    Run "poll" polls::now;
    Write "resetPoll" polls::reset;
    Write "rewindPoll" polls::rewind;
    Read execution_list::list;
    Read execution_list::latest;
    Read execution::show;
    Read values::values;
    Read input::input;
    Read export::route;
    Read turns::turns;
    Read execution::logs;
    Run "cancel" execution::cancel;
    Run "replay" replay::replay;
    Read bulk::list, Run "startBulk" bulk::begin;
    Read bulk::show, Run "stopBulk" bulk::stop;
    Admin "importExecutions" import::import;
    Run trials::run;
    Run test_drafts::from_execution;
    Read follow::events;
    Read stream::stream;
    Run "answer" waiting::signal;
    Read waiting::answers;
    Read notices::events, Run "sendEvent" waiting::emit;
    Read project_files::list;
    Read project_files::show, Write "changeFile" project_files::put, Write "deleteFile" project_files::delete;
    Read editing::edit;
    Read assist::complete;
    Read assist::hover;
    Read assist::definition;
    Read assist::schema;
    Read assist::preview_schedule;
    Read assist::scaffold;
    Nothing "logIn" session::begin, Credential session::show, Credential "logOut" session::end;
    Nothing login::provider, Nothing login::begin;
    Nothing "logIn" login::end;
    Credential "createLink" session::link;
    Read state::list;
    Read state::show, Write "changeState" state::put, Write "deleteState" state::delete;
    Secrets secrets::list;
    Secrets "setSecret" secrets::put, Secrets "deleteSecret" secrets::delete;
    Secrets "changeKey" secrets::rotate;
    Read connectors::list;
    Read connectors::show;
    Read connections::list;
    Run "testConnection" connections::test;
    Secrets "connect" connections::begin_login, Read connections::login_state;
    Read hosts::list;
    Read nodes::list;
    Read deployments::list, Write "deploy" deployments::deploy;
    Write "restoreDeployment" deployments::restore;
    Credential status::description;
    Metrics metrics::metrics;
    Admin tokens::list, Admin "createToken" tokens::create;
    Admin "revokeToken" tokens::revoke;
    Admin audit::list;
}

/// A handler behind the rule of its route.
fn guarded<P: utoipa::Path, H, T>(rule: Rule, handler: H) -> MethodRouter<Arc<Api>>
where
    H: Handler<T, Arc<Api>>,
    T: 'static,
{
    behind(rule, on(taken::<P>(), handler))
}

/// A route behind its rule. Not generic, so that the compiler makes the layer once and not for each handler.
fn behind(rule: Rule, route: MethodRouter<Arc<Api>>) -> MethodRouter<Arc<Api>> {
    route.route_layer(from_fn(move |request: Request, next: Next| guard::check(rule, request, next)))
}

#[cfg(test)]
fn row<P: utoipa::Path>(rule: Rule) -> (String, Vec<HttpMethod>, Rule) {
    (P::path(), P::methods(), rule)
}

/// The methods by which a handler is reached.
fn taken<P: utoipa::Path>() -> MethodFilter {
    let methods = P::methods().into_iter().map(|method| method.to_method_filter());
    // A handler without any would be described as such, which a test forbids.
    methods.reduce(MethodFilter::or).unwrap_or(MethodFilter::TRACE)
}

/// The router.
pub(crate) fn router() -> axum::Router<Arc<Api>> {
    // Fast compression: on the same machine its time matters more than the last bytes. Files of the UI and streams are left
    // as they are.
    let worth_it = DefaultPredicate::new().and(SizeAbove::new(COMPRESSED_FROM));
    let compression = CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worth_it);
    // The listener has read the body within the limit of the route; that of axum, 2 MB, would refuse larger ones.
    routed().fallback(ui::serve).layer(compression).layer(DefaultBodyLimit::disable())
}
