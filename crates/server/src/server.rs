//! Both listeners together: opened first, serving once there is an engine, shut down in order.

use std::net::SocketAddr;
use std::sync::Arc;

use engine::Engine;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use value::Secret;

use crate::admin::{Admin, Api};
use crate::audit::AuditLog;
use crate::files::{Announcement, Daemon, admin_token};
use crate::hooks::Hooks;
use crate::net::{Budget, HalfClose, Listener, Spool};
use crate::options::Addresses;
use crate::resume::Resume;
use crate::{Error, ServerOptions};

/// Listeners that are open and do not respond yet: connections wait in the system's queue.
#[derive(Debug)]
pub struct Bound {
    options: ServerOptions,
    hooks: TcpListener,
    admin: TcpListener,
    addresses: Addresses,
    token: Secret,
}

/// Listeners that respond.
///
/// Dropping it without [`Server::shutdown`] stops accepting, and lets the runtime end requests in progress.
#[derive(Debug)]
pub struct Server {
    addresses: Addresses,
    token: Secret,
    closing: CancellationToken,
    tasks: TaskTracker,
    announcement: Option<Announcement>,
}

impl Server {
    /// Opens both listeners and ensures that there is an admin token.
    ///
    /// # Errors
    /// An address is in use or not local, or the token cannot be read or created.
    pub async fn bind(options: ServerOptions) -> Result<Bound, Error> {
        let token = admin_token(&options.data_dir, options.admin_token.as_ref())?;
        let (hooks, hooks_address) = listen("hooks", options.hooks).await?;
        let (admin, admin_address) = listen("admin", options.admin).await?;
        let addresses = Addresses { hooks: hooks_address, admin: admin_address };
        Ok(Bound { options, hooks, admin, addresses, token })
    }

    /// Opens both listeners and serves `engine` immediately.
    ///
    /// # Errors
    /// The errors of [`Server::bind`] and [`Bound::serve`].
    pub async fn start(engine: Engine, options: ServerOptions) -> Result<Self, Error> {
        Self::bind(options).await?.serve(engine)
    }

    /// The address of the hook listener.
    #[must_use]
    pub fn hooks_addr(&self) -> SocketAddr {
        self.addresses.hooks
    }

    /// The address of the API.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.addresses.admin
    }

    /// The token of the API.
    #[must_use]
    pub fn admin_token(&self) -> &Secret {
        &self.token
    }

    /// Stops accepting, ends event streams, lets responses in progress finish within the grace period, including responses of
    /// synchronous webhooks, and closes the rest. The engine must still run for that.
    pub async fn shutdown(mut self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.announcement = None;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl Bound {
    /// The addresses; the ports are assigned even if port 0 was requested.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The token of the API.
    #[must_use]
    pub fn admin_token(&self) -> &Secret {
        &self.token
    }

    /// Responds with `engine` from now on, and writes `daemon.json` so that clients find it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn serve(self, engine: Engine) -> Result<Server, Error> {
        let Self { options, hooks, admin, addresses, token } = self;
        let daemon = Daemon { pid: std::process::id(), admin: addresses.admin, hooks: addresses.hooks };
        let announcement = Announcement::write(&options.data_dir, daemon)?;
        engine.peers().report_address(addresses.admin);
        engine.settings().redactor.add_secret(token.expose());
        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        let audit = Arc::new(AuditLog::new(&options.data_dir));
        let budget = Budget::new(options.body_budget, Some(Spool::new(engine.ingress().files())));
        let hooks = Listener {
            name: "hooks",
            socket: hooks,
            respond: Hooks {
                engine: engine.clone(),
                resume: Resume::new(engine.clone()),
                audit: Some(audit.clone()),
                triggers: true,
                limits: options.hook_limits.clone(),
                deadlines: options.deadlines.clone(),
                budget: Arc::clone(&budget),
                closing: closing.clone(),
            },
            limits: options.hook_limits.clone(),
            deadlines: options.deadlines.clone(),
            grace: options.grace,
            on_half_close: HalfClose::Finish,
        };
        let api = Api::new(engine, &options, &token, addresses, audit, closing.clone(), tasks.clone())?;
        let admin = Listener {
            name: "admin",
            socket: admin,
            respond: Admin::new(api, &options, token.clone(), budget),
            limits: options.admin_limits.clone(),
            deadlines: options.deadlines.clone(),
            grace: options.grace,
            on_half_close: HalfClose::Drop,
        };
        tasks.spawn(hooks.run(closing.clone()));
        tasks.spawn(admin.run(closing.clone()));
        Ok(Server { addresses, token, closing, tasks, announcement: Some(announcement) })
    }
}

/// A hook listener that serves only resume addresses, for an engine without a daemon.
#[derive(Debug)]
pub struct ResumeServer {
    address: SocketAddr,
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl ResumeServer {
    /// Listens at the hook listener's address of the options.
    ///
    /// # Errors
    /// The address is in use or not local.
    pub async fn start(engine: Engine, options: &ServerOptions) -> Result<Self, Error> {
        let (socket, address) = listen("hooks", options.hooks).await?;
        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        let listener = Listener {
            name: "resume",
            socket,
            respond: Hooks {
                resume: Resume::new(engine.clone()),
                engine,
                audit: None,
                triggers: false,
                limits: options.hook_limits.clone(),
                deadlines: options.deadlines.clone(),
                budget: Budget::new(options.body_budget, None),
                closing: closing.clone(),
            },
            limits: options.hook_limits.clone(),
            deadlines: options.deadlines.clone(),
            grace: options.grace,
            on_half_close: HalfClose::Finish,
        };
        tasks.spawn(listener.run(closing.clone()));
        Ok(Self { address, closing, tasks })
    }

    /// The address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, and lets responses in progress finish within the grace period.
    pub async fn shutdown(self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn listen(setting: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Bind { setting, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
