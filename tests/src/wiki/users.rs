//! Users and their permissions.

/// A permission of a user in a space. Without `view` the space does not exist for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    /// See the space and what is in it.
    pub view: bool,
    /// Create pages and attachments.
    pub create: bool,
    /// Change pages, and write content properties.
    pub edit: bool,
    /// Put pages and attachments in the bin.
    pub delete: bool,
    /// Administer the space: purge.
    pub admin: bool,
}

impl Permissions {
    /// Nothing at all.
    pub const NONE: Self = Self { view: false, create: false, edit: false, delete: false, admin: false };
    /// See only.
    pub const VIEW: Self = Self { view: true, ..Self::NONE };
    /// Everything but administration.
    pub const WRITE: Self = Self { view: true, create: true, edit: true, delete: true, admin: false };
    /// Everything.
    pub const ADMIN: Self = Self { admin: true, ..Self::WRITE };

    pub(super) fn allow(self, right: Right) -> bool {
        self.view
            && match right {
                Right::View => true,
                Right::Create => self.create,
                Right::Edit => self.edit,
                Right::Delete => self.delete,
                Right::Admin => self.admin,
            }
    }
}

/// One of the five permissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Right {
    View,
    Create,
    Edit,
    Delete,
    Admin,
}

/// An API token of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiToken {
    pub(super) secret: String,
    /// A token with scopes is accepted on the gateway only, one without on the site only.
    pub(super) scopes: Option<Vec<String>>,
}

/// A user of the wiki.
#[derive(Clone, Debug)]
pub struct User {
    pub(super) account_id: String,
    pub(super) email: String,
    pub(super) api_tokens: Vec<ApiToken>,
    pub(super) password: Option<String>,
    pub(super) permissions: Permissions,
    pub(super) in_spaces: Vec<(String, Permissions)>,
}

impl User {
    /// A user who may do everything and has no way in yet.
    pub fn new(account_id: impl Into<String>, email: impl Into<String>) -> Self {
        Self {
            account_id: account_id.into(),
            email: email.into(),
            api_tokens: Vec::new(),
            password: None,
            permissions: Permissions::ADMIN,
            in_spaces: Vec::new(),
        }
    }

    /// Adds an API token with the full rights of the user, for Basic authentication on the site.
    #[must_use]
    pub fn api_token(mut self, token: impl Into<String>) -> Self {
        self.api_tokens.push(ApiToken { secret: token.into(), scopes: None });
        self
    }

    /// Adds an API token with scopes (space-separated), for Basic authentication on the gateway.
    #[must_use]
    pub fn scoped_api_token(mut self, token: impl Into<String>, scopes: &str) -> Self {
        let scopes = scopes.split_whitespace().map(str::to_owned).collect();
        self.api_tokens.push(ApiToken { secret: token.into(), scopes: Some(scopes) });
        self
    }

    /// Sets a password. The hosted wiki refuses it with a text of its own; a self-hosted one accepts it.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets what the user may do in every space not named by [`User::in_space`]. Everything by default.
    #[must_use]
    pub fn everywhere(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Sets what the user may do in the space with this key.
    #[must_use]
    pub fn in_space(mut self, key: impl Into<String>, permissions: Permissions) -> Self {
        self.in_spaces.push((key.into(), permissions));
        self
    }

    pub(super) fn permissions_in(&self, space_key: &str) -> Permissions {
        let named = self.in_spaces.iter().rev().find(|(key, _)| key == space_key);
        named.map_or(self.permissions, |(_, permissions)| *permissions)
    }
}

/// The caller, after authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub(super) account_id: String,
    /// `None` when the credentials carry the full rights of the user.
    pub(super) scopes: Option<Vec<String>>,
}

impl Who {
    /// The account of the caller.
    pub fn account_id(&self) -> &str {
        &self.account_id
    }

    pub(super) fn has_scope(&self, scope: &str) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.iter().any(|held| held == scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_view_no_other_permission_counts() {
        let odd = Permissions { view: false, ..Permissions::ADMIN };
        for right in [Right::View, Right::Create, Right::Edit, Right::Delete, Right::Admin] {
            assert!(!odd.allow(right));
            assert!(Permissions::ADMIN.allow(right));
        }
    }

    #[test]
    fn a_space_of_its_own_overrules_the_default() {
        let user =
            User::new("a", "a@example.com").everywhere(Permissions::NONE).in_space("DEMO", Permissions::VIEW);
        assert_eq!(user.permissions_in("DEMO"), Permissions::VIEW);
        assert_eq!(user.permissions_in("ARCH"), Permissions::NONE);
    }
}
