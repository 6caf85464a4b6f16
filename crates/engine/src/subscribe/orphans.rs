//! Subscriptions that the other application has and of which nobody here knows what it calls them: the daemon ended, or the
//! answer got lost, between asking for one and writing down what came of it. They are found by our address.

use connector::{HookedEvent, ListedHooks};
use model::action::ActionError;
use model::value::{Key, Value};
use store::Subscription;

use super::call::taken;
use crate::catalog::Catalog;
use crate::services::Services;

/// The most pages of a list that are read.
const MOST_PAGES: usize = 50;

impl Services {
    /// Writes down that the other application is asked from now on.
    pub(super) async fn note_asked(&self, asking: &Subscription) {
        let _changing = self.subscriptions.changing.lock().await;
        let Some(mut now) = self.subscriptions.get(&asking.id) else { return };
        (now.requested, now.inputs, now.url) = (true, asking.inputs.clone(), asking.url.clone());
        self.keep_subscription(now).await;
    }

    /// What the other application calls a subscription just like this one, if it has one. Others at our address of which
    /// nobody knows are taken back.
    pub(super) async fn take_over(
        &self,
        catalog: &Catalog,
        hook: &HookedEvent,
        asking: &Subscription,
    ) -> Result<Option<Value>, String> {
        let mut found = None;
        for orphan in self.orphans(catalog, hook, asking).await? {
            if found.is_none() && orphan.is_as_asked {
                tracing::info!(automation = %asking.automation, event = asking.event, "found a subscription that was asked for before");
                found = Some(orphan.remote);
            } else {
                self.take_back(catalog, hook, asking, &orphan.remote).await?;
            }
        }
        Ok(found)
    }

    /// Takes back whatever came of asking for a subscription.
    pub(super) async fn take_back_orphans(
        &self,
        catalog: &Catalog,
        hook: &HookedEvent,
        asked: &Subscription,
    ) -> Result<(), String> {
        for orphan in self.orphans(catalog, hook, asked).await? {
            self.take_back(catalog, hook, asked, &orphan.remote).await?;
        }
        Ok(())
    }

    /// What the other application has at the address of a subscription, whatever stands before its token, and nobody here
    /// knows of. Nothing where it cannot be asked for that.
    async fn orphans(
        &self,
        catalog: &Catalog,
        hook: &HookedEvent,
        about: &Subscription,
    ) -> Result<Vec<Orphan>, String> {
        let Some(list) = &hook.list else { return Ok(Vec::new()) };
        let Some((_, token)) = about.url.rsplit_once('/').filter(|(_, token)| !token.is_empty()) else {
            return Ok(Vec::new());
        };
        let connector = |event: &str| event.split('.').next().map(str::to_owned);
        let of_it = |one: &Subscription| {
            one.automation == about.automation && connector(&one.event) == connector(&about.event)
        };
        let known: Vec<Value> =
            self.subscriptions.all().into_iter().filter(of_it).map(|one| one.remote).collect();
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
            let is_as_asked = url == about.url && hook.with.iter().all(same);
            orphans.push(Orphan { remote, is_as_asked });
        }
        Ok(orphans)
    }

    async fn listed(
        &self,
        catalog: &Catalog,
        list: &ListedHooks,
        about: &Subscription,
    ) -> Result<Vec<Value>, String> {
        let action = catalog.registry().action(&list.action).cloned();
        let action = action.ok_or_else(|| format!("there is no action `{}` any more", list.action))?;
        let mut with = list.with.clone();
        for (name, value) in taken(action.spec(), &about.inputs).iter() {
            with.insert(name.clone(), value.clone());
        }
        let mut items = Vec::new();
        for _ in 0..MOST_PAGES {
            let page =
                self.say(catalog, about, &list.action, &with).await.map_err(ActionError::into_message)?;
            let there = page.path(&list.items).unwrap_or_default();
            let there = there
                .as_list()
                .ok_or_else(|| format!("`{}` gave no list at `{}`", list.action, list.items))?;
            items.extend(there.iter().cloned());
            let next = page.get("nextCursor").filter(|next| !next.is_null());
            let (Some(input), Some(next)) = (&list.cursor, next) else { break };
            with.insert(input.as_str(), next);
        }
        Ok(items)
    }
}

/// A subscription of which only the other application knows.
struct Orphan {
    /// What it calls it.
    remote: Value,
    /// Whether it is what would be asked for now.
    is_as_asked: bool,
}
