//! Relay connections, forward only. A cursor is sealed with what it belongs to, so that a foreign or garbled one is
//! an error and never page 1.

use async_graphql::connection::{
    Connection, ConnectionNameType, DefaultConnectionName, DefaultEdgeName, DisableNodesField,
    Edge, EdgeNameType, EmptyFields,
};
use async_graphql::{Context, ObjectType, OutputType, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use crate::context::ContextExt;
use crate::error::{bad_input, coded};

/// Items of a page when the client does not say.
pub const PAGE_DEFAULT: i32 = 20;
/// Most items of a page.
pub const PAGE_MAX: i32 = 50;
/// Bytes of the seal that are kept.
const SEAL_BYTES: usize = 12;

/// A list with the library's names for it.
pub type List<T, E = EmptyFields, N = DefaultConnectionName, EN = DefaultEdgeName> =
    Connection<String, T, EmptyFields, E, N, EN, DisableNodesField>;

/// A page that a client asks for.
#[derive(Clone, Debug)]
pub struct Page<K> {
    /// What its cursors belong to.
    kind: String,
    /// Items wanted, 1 to 50.
    first: usize,
    /// The place after which it begins.
    pub after: Option<K>,
}

impl<K: Serialize + DeserializeOwned> Page<K> {
    /// Reads the arguments. `kind` names the list with its filter and order: a cursor of another one is refused.
    ///
    /// # Errors
    /// `BAD_INPUT` for `first` out of 1..50, `BAD_CURSOR`.
    pub fn new(
        ctx: &Context<'_>,
        kind: impl Into<String>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Result<Self> {
        let (kind, first) = (kind.into(), first.unwrap_or(PAGE_DEFAULT));
        if !(1..=PAGE_MAX).contains(&first) {
            return Err(bad_input(
                "first",
                format!("first must be between 1 and {PAGE_MAX}"),
            ));
        }
        let after = after.map(|cursor| open(ctx, &kind, &cursor)).transpose()?;
        Ok(Self {
            kind,
            first: usize::try_from(first).unwrap_or(1),
            after,
        })
    }

    /// How many items to load: one more than wanted, to know whether more follow.
    pub fn load(&self) -> usize {
        self.first + 1
    }

    /// The page, from the items that were loaded; `key` is an item's place in the list.
    pub fn list<T, N, EN>(
        &self,
        ctx: &Context<'_>,
        items: Vec<T>,
        key: impl Fn(&T) -> K,
    ) -> List<T, EmptyFields, N, EN>
    where
        T: OutputType,
        N: ConnectionNameType,
        EN: EdgeNameType,
    {
        self.list_with(ctx, items, key, |item| (item, EmptyFields))
    }

    /// As `list`, for items that give their edges more fields.
    pub fn list_with<I, T, E, N, EN>(
        &self,
        ctx: &Context<'_>,
        mut items: Vec<I>,
        key: impl Fn(&I) -> K,
        split: impl Fn(I) -> (T, E),
    ) -> List<T, E, N, EN>
    where
        T: OutputType,
        E: ObjectType,
        N: ConnectionNameType,
        EN: EdgeNameType,
    {
        let more = items.len() > self.first;
        items.truncate(self.first);
        let mut list = List::new(self.after.is_some(), more);
        list.edges.extend(items.into_iter().map(|item| {
            let cursor = seal(ctx, &self.kind, &key(&item));
            let (node, fields) = split(item);
            Edge::with_additional_fields(cursor, node, fields)
        }));
        list
    }
}

fn seal<K: Serialize>(ctx: &Context<'_>, kind: &str, key: &K) -> String {
    let mut bytes =
        serde_json::to_vec(key).expect("invariant: numbers and strings are always JSON");
    let tag = mac(ctx, kind, &bytes).finalize().into_bytes();
    bytes.extend_from_slice(&tag[..SEAL_BYTES]);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn open<K: DeserializeOwned>(ctx: &Context<'_>, kind: &str, cursor: &str) -> Result<K> {
    let bad = || coded("BAD_CURSOR", "this cursor does not belong to this list");
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| bad())?;
    let (key, tag) = bytes
        .split_at_checked(bytes.len().saturating_sub(SEAL_BYTES))
        .ok_or_else(bad)?;
    if tag.len() != SEAL_BYTES {
        return Err(bad());
    }
    mac(ctx, kind, key)
        .verify_truncated_left(tag)
        .map_err(|_| bad())?;
    serde_json::from_slice(key).map_err(|_| bad())
}

fn mac(ctx: &Context<'_>, kind: &str, key: &[u8]) -> Hmac<Sha256> {
    let secret = ctx.services().id_secret().expose();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())
        .expect("invariant: HMAC takes keys of any length");
    mac.update(b"cursor");
    mac.update(kind.as_bytes());
    mac.update(&[0]);
    mac.update(key);
    mac
}
