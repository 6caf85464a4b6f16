//! Finds orphaned subscriptions: remote ones whose id was lost because the daemon stopped or the response got lost
//! after the request. They are recognised by the daemon's URL.

use connector::{SubscribedEvent, SubscriptionListing};
use model::action::ActionError;
use store::Subscription;
use value::{Key, Value};

use super::call::declared_inputs;
use crate::ingress::Ingress;
use catalog::Catalog;

/// Maximum number of pages that are read from a list.
const MAX_PAGES: usize = 50;

impl Ingress {
    /// Records that a request is about to be sent. Returns false if the store refuses that, or the subscription is gone.
    pub(super) async fn record_request(&self, request: &Subscription) -> bool {
        let _changing = self.subscriptions.changing.lock().await;
        let Some(mut now) = self.subscriptions.get(&request.id) else { return false };
        (now.requested, now.inputs, now.url) = (true, request.inputs.clone(), request.url.clone());
        self.store_subscription(now).await
    }

    /// Returns the remote id of an orphan equal to the requested subscription, if there is one. Deletes all other
    /// orphans of the address.
    pub(super) async fn adopt_orphan(
        &self,
        catalog: &Catalog,
        hook: &SubscribedEvent,
        request: &Subscription,
    ) -> Result<Option<Value>, String> {
        let mut found = None;
        for orphan in self.orphans(catalog, hook, request).await? {
            if found.is_none() && orphan.matches_request {
                tracing::info!(trigger = %request.trigger, event = request.event, "found a subscription that was requested before");
                found = Some(orphan.remote);
            } else {
                self.delete_remote(catalog, hook, request, &orphan.remote).await?;
            }
        }
        Ok(found)
    }

    /// Deletes all orphans of a subscription.
    pub(super) async fn delete_orphans(
        &self,
        catalog: &Catalog,
        hook: &SubscribedEvent,
        asked: &Subscription,
    ) -> Result<(), String> {
        for orphan in self.orphans(catalog, hook, asked).await? {
            self.delete_remote(catalog, hook, asked, &orphan.remote).await?;
        }
        Ok(())
    }

    /// Lists the unknown remote subscriptions for the token of an address, under any host. Empty if the connector has
    /// no list call.
    async fn orphans(
        &self,
        catalog: &Catalog,
        hook: &SubscribedEvent,
        about: &Subscription,
    ) -> Result<Vec<Orphan>, String> {
        let Some(list) = &hook.list else { return Ok(Vec::new()) };
        let Some((_, token)) = about.url.rsplit_once('/').filter(|(_, token)| !token.is_empty()) else {
            return Ok(Vec::new());
        };
        let connector = |event: &str| event.split('.').next().map(str::to_owned);
        let of_connector = |one: &Subscription| connector(&one.event) == connector(&about.event);
        let existing = self.subscriptions.of_automation(&about.trigger.automation).into_iter();
        let known: Vec<Value> = existing.filter(of_connector).map(|one| one.remote).collect();
        let mut orphans = Vec::new();
        for item in self.listed(catalog, list, about).await? {
            let Some(remote) = item.path(&hook.id).filter(|id| !id.is_null()) else { continue };
            let Some(url) = item.path(&list.url).as_ref().and_then(|url| url.as_str().map(str::to_owned))
            else {
                continue;
            };
            let is_ours = url.rsplit_once('/').is_some_and(|(_, last)| last == token);
            if !is_ours || known.contains(&remote) {
                continue;
            }
            let same = |(name, value): (&Key, &Value)| item.get(name).as_ref() == Some(value);
            let matches_request = url == about.url && hook.with.iter().all(same);
            orphans.push(Orphan { remote, matches_request });
        }
        Ok(orphans)
    }

    async fn listed(
        &self,
        catalog: &Catalog,
        list: &SubscriptionListing,
        about: &Subscription,
    ) -> Result<Vec<Value>, String> {
        let action = catalog.registry().action(&list.action).cloned();
        let action = action.ok_or_else(|| format!("the action `{}` no longer exists", list.action))?;
        let mut with = list.with.clone();
        for (name, value) in declared_inputs(action.spec(), &about.inputs).iter() {
            with.insert(name.clone(), value.clone());
        }
        let mut items = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self
                .call_action(catalog, about, &list.action, &with)
                .await
                .map_err(ActionError::into_message)?;
            let there = page.path(&list.items).unwrap_or_default();
            let there = there
                .as_list()
                .ok_or_else(|| format!("`{}` returned no list at `{}`", list.action, list.items))?;
            items.extend(there.iter().cloned());
            let next = page.get("nextCursor").filter(|next| !next.is_null());
            let (Some(input), Some(next)) = (&list.cursor, next) else { break };
            with.insert(input.as_str(), next);
        }
        Ok(items)
    }
}

/// A remote subscription that is not in the store.
struct Orphan {
    /// Its remote id.
    remote: Value,
    /// True if it equals the subscription that would be requested now.
    matches_request: bool,
}
