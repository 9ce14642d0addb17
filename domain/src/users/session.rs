//! Sessions: a random token in the user's hands, its hash in Redis, a copy of at most five seconds in each node.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deadpool_redis::redis::{RedisError, cmd, pipe};
use rand::RngCore;
use sea_orm::ActiveEnum;
use sha2::{Digest, Sha256};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::session_copies::SessionCopies;
use super::{Error, Role, UserId};
use crate::infra::events::PushEvent;
use crate::infra::redis::Redis;

/// Life of a session that is not used; each use starts it anew.
pub const SESSION_IDLE_LIFE: Duration = Duration::from_secs(30 * 60);
/// Life of a session however much it is used.
pub const SESSION_FULL_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// A session's life is written anew at most this often: Redis logs every write to disk.
const SLIDE_EVERY: Duration = Duration::from_secs(60);
/// 256 bits cannot be guessed.
const TOKEN_BYTES: usize = 32;
/// Base64 characters of a token.
const TOKEN_CHARS: usize = TOKEN_BYTES.div_ceil(3) * 4 - 1;
/// On it, nodes tell each other whose local copies are of no more use: token hashes, with commas between.
const CHANNEL: &str = "sessions";

/// SHA-256 of a token: what stores know of it. Whoever has only this cannot sign in with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token as the user sent it; `None` when it cannot be a token at all.
    pub fn of(token: &str) -> Option<Self> {
        let looks_right = token.len() == TOKEN_CHARS
            && token
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        looks_right.then(|| Self(Sha256::digest(token.as_bytes()).into()))
    }

    /// Which of `parts` a table split in parts keeps it in.
    pub(super) fn part(&self, parts: usize) -> usize {
        usize::from(self.0[0]) % parts
    }

    fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0[..4]))
    }
}

/// Somebody who is signed in, as seen at most five seconds ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Who.
    pub user_id: UserId,
    /// What he may do.
    pub role: Role,
    /// Which of his sessions.
    pub token_hash: TokenHash,
}

impl Session {
    /// A user as a command of the operator acts for him; no token belongs to it.
    pub fn of_command(user_id: UserId, role: Role) -> Self {
        Self {
            user_id,
            role,
            token_hash: TokenHash([0; 32]),
        }
    }
}

/// All sessions of the deployment. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    redis: Redis,
    copies: SessionCopies,
}

impl Sessions {
    /// Starts listening to what other nodes say about sessions, for as long as a clone lives.
    pub(super) fn new(redis: Redis) -> Self {
        let heard = redis.subscribe(CHANNEL);
        let inner = Arc::new(Inner {
            redis,
            copies: SessionCopies::default(),
        });
        tokio::spawn(forget_what_others_end(heard, Arc::downgrade(&inner)));
        Self { inner }
    }

    /// Starts a session and returns its token.
    pub(super) async fn start(&self, user: UserId, role: Role) -> Result<String, RedisError> {
        let token = new_token();
        let (keys, args) = self.start_call(user, role, &token);
        let _started: i64 = self
            .redis()
            .run(&self.redis().scripts().session_start, &keys, &args)
            .await?;
        Ok(token)
    }

    /// Starts a session for each user in one trip; returns their tokens in the same order.
    pub(super) async fn start_many(
        &self,
        users: &[UserId],
        role: Role,
    ) -> Result<Vec<String>, RedisError> {
        let script = &self.redis().scripts().session_start;
        let mut calls = pipe();
        // First in the pipeline, so that every EVALSHA behind it finds the script.
        calls.cmd("SCRIPT").arg("LOAD").arg(&script.text).ignore();
        let mut tokens = Vec::with_capacity(users.len());
        for user in users {
            let token = new_token();
            let (keys, args) = self.start_call(*user, role, &token);
            calls
                .cmd("EVALSHA")
                .arg(&script.sha)
                .arg(keys.len())
                .arg(&keys[..])
                .arg(&args[..])
                .ignore();
            tokens.push(token);
        }
        self.redis().query_pipe::<()>(&calls).await?;
        Ok(tokens)
    }

    /// Whose token it is: from the local copy, else from Redis. `None` when it is unknown or over.
    pub(super) async fn find(&self, token: &str) -> Result<Option<Session>, Error> {
        let Some(hash) = TokenHash::of(token) else {
            return Ok(None);
        };
        match self.inner.copies.get(&hash) {
            Some(session) => Ok(Some(session)),
            None => self.load(hash).await,
        }
    }

    /// Reads a session from Redis, lets it live on, and keeps a copy.
    pub(super) async fn load(&self, hash: TokenHash) -> Result<Option<Session>, Error> {
        // From before the question: a logout in between is not outlived, here or on another node.
        let asked = self.inner.copies.asking(&hash);
        let keys = [self.session_key(&hash)];
        let args = [
            millis(SESSION_IDLE_LIFE),
            millis(SESSION_FULL_LIFE),
            millis(SLIDE_EVERY),
        ];
        let found: Option<(i64, String)> = self
            .redis()
            .run(&self.redis().scripts().session_touch, &keys, &args)
            .await?;
        let Some((user, role)) = found else {
            self.inner.copies.forget(&hash);
            return Ok(None);
        };
        let role = Role::try_from_value(&role).map_err(|_| Error::BrokenSession)?;
        let session = Session {
            user_id: UserId(user),
            role,
            token_hash: hash,
        };
        self.inner.copies.put(session.clone(), &asked);
        Ok(Some(session))
    }

    /// Ends one session; 0 when it was over already.
    pub(super) async fn end(&self, session: &Session) -> Result<u64, RedisError> {
        self.end_all(session.user_id, vec![session.token_hash.to_string()])
            .await
    }

    /// Ends every session of a user; returns how many were alive.
    pub(super) async fn end_every(&self, user: UserId) -> Result<u64, RedisError> {
        let hashes = self.of_user(user).await?;
        self.end_all(user, hashes).await
    }

    /// Tells every session of a user his new role.
    pub(super) async fn set_role(&self, user: UserId, role: Role) -> Result<(), RedisError> {
        let hashes = self.of_user(user).await?;
        for hash in &hashes {
            let keys = [self.session_key(hash)];
            let _told: i64 = self
                .redis()
                .run(
                    &self.redis().scripts().session_role,
                    &keys,
                    &[role.to_value()],
                )
                .await?;
        }
        self.forget_everywhere(&hashes).await;
        Ok(())
    }

    /// Only the hashes that were read leave the list: a session that starts meanwhile stays listed, and alive.
    async fn end_all(&self, user: UserId, hashes: Vec<String>) -> Result<u64, RedisError> {
        if hashes.is_empty() {
            return Ok(0);
        }
        let keys: Vec<String> = hashes.iter().map(|hash| self.session_key(hash)).collect();
        let mut calls = pipe();
        calls
            .atomic()
            .del(keys)
            .zrem(self.user_key(user), &hashes)
            .ignore();
        let (ended,): (u64,) = self.redis().query_pipe(&calls).await?;
        self.forget_everywhere(&hashes).await;
        Ok(ended)
    }

    async fn of_user(&self, user: UserId) -> Result<Vec<String>, RedisError> {
        self.redis()
            .query(cmd("ZRANGE").arg(self.user_key(user)).arg(0).arg(-1))
            .await
    }

    /// Local copies go at once; other nodes' too, unless the message is lost: then within five seconds.
    async fn forget_everywhere(&self, hashes: &[String]) {
        let message = hashes.join(",");
        self.inner.forget(&message);
        if let Err(e) = self.redis().publish(CHANNEL, &message).await {
            tracing::warn!(error = %e, "other nodes were not told that sessions changed; they see it within 5 s");
        }
    }

    fn start_call(&self, user: UserId, role: Role, token: &str) -> ([String; 2], [String; 5]) {
        let hash = TokenHash(Sha256::digest(token.as_bytes()).into());
        let keys = [self.session_key(&hash), self.user_key(user)];
        let args = [
            user.to_string(),
            role.to_value(),
            hash.to_string(),
            millis(SESSION_IDLE_LIFE),
            millis(SESSION_FULL_LIFE),
        ];
        (keys, args)
    }

    /// `session:<token hash>`, hash, lives 30 min from its last use: user, role, created, seen.
    fn session_key(&self, hash: &impl fmt::Display) -> String {
        self.redis().key(format_args!("session:{hash}"))
    }

    /// `user:<id>:sessions`, zset, seven days: token hashes by the time they end at the latest.
    fn user_key(&self, user: UserId) -> String {
        self.redis().key(format_args!("user:{user}:sessions"))
    }

    fn redis(&self) -> &Redis {
        &self.inner.redis
    }
}

impl Inner {
    fn forget(&self, message: &str) {
        for hash in message.split(',').filter_map(TokenHash::from_hex) {
            self.copies.remove(&hash);
        }
    }
}

async fn forget_what_others_end(mut heard: broadcast::Receiver<PushEvent>, sessions: Weak<Inner>) {
    loop {
        let event = heard.recv().await;
        let Some(sessions) = sessions.upgrade() else {
            return;
        };
        match event {
            Ok(PushEvent::Message(message)) => sessions.forget(&message),
            Ok(PushEvent::Resync) | Err(RecvError::Lagged(_)) => sessions.copies.clear(),
            Err(RecvError::Closed) => return,
        }
    }
}

fn new_token() -> String {
    let mut bytes = [0; TOKEN_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

#[cfg(test)]
mod tests {
    use super::{TokenHash, new_token};

    #[test]
    fn tokens_are_256_random_bits_and_pass_their_own_check() {
        let (one, other) = (new_token(), new_token());
        assert_ne!(one, other);
        assert_eq!(one.len(), 43);
        assert!(TokenHash::of(&one).is_some());
    }

    #[test]
    fn what_cannot_be_a_token_is_not_looked_up() {
        for text in [
            "",
            "Bearer",
            &"a".repeat(42),
            &"a".repeat(44),
            &format!("{}=", "a".repeat(42)),
            &"é".repeat(43),
        ] {
            assert!(TokenHash::of(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_hash_survives_its_text_and_never_shows_whole_in_logs() {
        let hash = TokenHash::of(&new_token()).unwrap();
        assert_eq!(TokenHash::from_hex(&hash.to_string()), Some(hash));
        assert_eq!(format!("{hash:?}").len(), 8);
    }
}
