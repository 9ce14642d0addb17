//! The texts of `lua/`, as Redis will know them. What each answers is decoded beside its one caller.

use sha1::{Digest, Sha1};

/// One script: its text opens with a line that names the deployment, so that the script caches of two deployments
/// on one server stay apart.
#[derive(Clone, Debug)]
pub struct Script {
    /// The file's name without its ending.
    pub name: &'static str,
    /// The text that is loaded.
    pub text: String,
    /// Lower-case hexadecimal SHA-1 of the text, as EVALSHA takes it.
    pub sha: String,
}

impl Script {
    /// Makes the script of one deployment.
    pub fn new(deployment: &str, name: &'static str, body: &str) -> Self {
        let text = format!("-- {deployment}\n{body}");
        let sha = hex::encode(Sha1::digest(text.as_bytes()));
        Self { name, text, sha }
    }
}

/// Stands before the scripts that ask first whether the sale is there and in order.
const SALE_HEAD: &str = include_str!("../../../lua/sale_head.lua");

/// Stands before the scripts of inboxes.
const FEED_HEAD: &str = include_str!("../../../lua/feed_head.lua");

macro_rules! scripts {
    ($($(#[$doc:meta])* $field:ident $(after $head:ident)?),+ $(,)?) => {
        /// Every script of this deployment, by name.
        #[derive(Clone, Debug)]
        pub struct Scripts { $($(#[$doc])* pub $field: Script),+ }

        impl Scripts {
            /// Makes the scripts of one deployment.
            pub fn new(deployment: &str) -> Self {
                Self { $($field: Script::new(
                    deployment,
                    stringify!($field),
                    &[$($head,)? include_str!(concat!("../../../lua/", stringify!($field), ".lua"))].concat(),
                )),+ }
            }
        }
    };
}

scripts! {
    /// Takes units for a batch of buyers.
    reserve after SALE_HEAD,
    /// Gives one unit back.
    release,
    /// Drops outbox entries whose rows are committed.
    settle,
    /// Tells where an order id is, and bars it when it is nowhere.
    forget after SALE_HEAD,
    /// Sets the pause, the reserve for waiters, the end.
    amend,
    /// Changes the total.
    adjust after SALE_HEAD,
    /// Bars a sale while it is recovered.
    begin_recovery,
    /// Puts a recovered sale in place.
    install,
    /// Marks a Redis that lost nothing since the last recovery.
    fence,
    /// Reads a sale's keys in one step.
    inspect after SALE_HEAD,
    /// Takes a lock.
    lock_take,
    /// Starts a lock's lease anew.
    lock_renew,
    /// Gives a lock back.
    lock_release,
    /// Counts a call in a sliding window.
    limit_window,
    /// Takes tokens from a bucket.
    limit_bucket,
    /// Notes that a row is about to be written.
    cache_mark,
    /// Keeps what was read of a row, unless something newer is known.
    cache_put,
    /// Drops what is kept of a row, and tells every node.
    cache_drop,
    /// Stores a login code, unless a limit forbids it.
    login_code,
    /// Takes a login code.
    login_check,
    /// Removes a login code that was not delivered.
    login_drop,
    /// Starts a session.
    session_start,
    /// Reads a session and lets it live on.
    session_touch,
    /// Tells a session its user's new role.
    session_role,
    /// Opens an inbox for its owner.
    feed_open after FEED_HEAD,
    /// Puts into an inbox what was read for it.
    feed_fill after FEED_HEAD,
    /// Reads a part of an inbox.
    feed_read after FEED_HEAD,
    /// Puts a note into inboxes.
    feed_push after FEED_HEAD,
}
