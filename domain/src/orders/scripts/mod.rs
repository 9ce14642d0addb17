//! The sale's scripts, each behind one function that decodes what it answers. They go by their hash only; those of
//! a recovery go by their text, for they must work when Redis has lost its scripts.

mod values;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{
    Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value, cmd, pipe,
};

use super::OrderId;
use super::keys::SaleKeys;
use crate::infra::lua::{Script, Scripts};
use crate::users::UserId;
use crate::vouchers::VoucherId;

pub use values::{
    Adjusted, Amended, Amendment, Buyer, Fields, Forgotten, Inspection, Installation, Installed,
    Released, Reserved, SaleMeta,
};

/// The field of outbox and attempts that tells their epoch.
pub const SENTINEL: &str = "epoch";
/// Entries written in one command while temporary keys are filled.
const FILL: usize = 500;
/// How long what a dead recoverer filled stays. Running out too early only makes `install` refuse.
const TEMPORARY_SECS: i64 = 600;

/// Why a script gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// Redis does not know it: a new binary, or a Redis that lost its scripts, and perhaps more.
    #[error("redis does not know the script")]
    NoScript,
    /// Redis' own.
    #[error("redis failed: {0}")]
    Redis(RedisError),
    /// An answer that the script does not give.
    #[error("script {script} gave an answer it does not have: {answer}")]
    Malformed {
        /// Which script.
        script: &'static str,
        /// The answer.
        answer: String,
    },
}

impl From<RedisError> for ScriptError {
    fn from(error: RedisError) -> Self {
        if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
            Self::NoScript
        } else {
            Self::Redis(error)
        }
    }
}

/// One attempt as `attempts` writes it.
pub fn attempt(order: OrderId, slot: i32, reserved_at: i64, request_id: &str) -> String {
    format!("{order},{slot},{reserved_at},{request_id}")
}

/// Takes units for up to 64 buyers of one voucher; one answer each, in their order.
///
/// # Errors
/// When Redis gives none.
pub async fn reserve<C: ConnectionLike + Send>(
    conn: &mut C,
    scripts: &Scripts,
    keys: &SaleKeys,
    voucher: VoucherId,
    buyers: &[Buyer],
) -> Result<Vec<Reserved>, ScriptError> {
    if buyers.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = by_hash(&scripts.reserve, &keys.all());
    call.arg(voucher.0).arg(buyers.len());
    for buyer in buyers {
        call.arg(buyer.order_id.0)
            .arg(buyer.user_id.0)
            .arg(&buyer.request_id)
            .arg(&buyer.trace_id);
        call.arg(i32::from(buyer.called_waiter));
    }
    let answer = ask_list(conn, &scripts.reserve, &call).await?;
    let malformed = || malformed("reserve", &answer);
    let (head, rest) = answer.split_first().ok_or_else(malformed)?;
    let number = || rest.first().and_then(number_of).ok_or_else(malformed);
    let all = match text_of(head).as_deref() {
        Some("BUYERS") if rest.len() == buyers.len() => {
            return rest
                .iter()
                .map(|one| reserved(one).ok_or_else(malformed))
                .collect();
        }
        Some("NOT_READY") => Reserved::NotReady,
        Some("DAMAGED") => Reserved::Damaged,
        Some("PAUSED") => Reserved::Paused,
        Some("NOT_STARTED") => Reserved::NotStarted {
            begin_ms: number()?,
        },
        Some("ENDED") => Reserved::Ended { end_ms: number()? },
        _ => return Err(malformed()),
    };
    Ok(vec![all; buyers.len()])
}

/// Gives the unit of one order back, at most once. `reject`: it was never placed, so that it is no attempt.
///
/// # Errors
/// When Redis gives no answer.
pub async fn release<C: ConnectionLike + Send>(
    conn: &mut C,
    scripts: &Scripts,
    keys: &SaleKeys,
    order: (OrderId, UserId),
    reject: bool,
) -> Result<Released, ScriptError> {
    let names = [
        keys.meta(),
        keys.stock(),
        keys.buyers(),
        keys.orders(),
        keys.attempts(),
        keys.dead(),
        keys.recovery(),
    ];
    let mut call = by_hash(&scripts.release, &names);
    call.arg(order.0.0).arg(order.1.0).arg(i32::from(reject));
    let answer = ask_list(conn, &scripts.release, &call).await?;
    match &words(&answer)[..] {
        ["NOT_READY"] => Ok(Released::NotReady),
        ["DONE", now, epoch] => {
            let epoch = epoch.parse().map_err(|_| malformed("release", &answer))?;
            Ok(Released::Done {
                now: *now == "1",
                epoch,
            })
        }
        _ => Err(malformed("release", &answer)),
    }
}

/// Drops outbox entries; returns how many were there. At most 500 orders.
///
/// # Errors
/// When Redis gives no answer.
pub async fn settle<C: ConnectionLike + Send>(
    conn: &mut C,
    scripts: &Scripts,
    keys: &SaleKeys,
    orders: &[OrderId],
) -> Result<i64, ScriptError> {
    if orders.is_empty() {
        return Ok(0);
    }
    let mut call = by_hash(&scripts.settle, &[keys.outbox()]);
    for order in orders {
        call.arg(order.0);
    }
    Ok(call.query_async(conn).await?)
}

/// Asks where an order is, and bars its id when it is nowhere.
///
/// # Errors
/// When Redis gives no answer.
pub async fn forget<C: ConnectionLike + Send>(
    conn: &mut C,
    scripts: &Scripts,
    keys: &SaleKeys,
    order: OrderId,
) -> Result<Forgotten, ScriptError> {
    let mut call = by_hash(&scripts.forget, &keys.all());
    call.arg(order.0);
    let answer = ask_list(conn, &scripts.forget, &call).await?;
    match &words(&answer)[..] {
        ["NOT_READY"] => Ok(Forgotten::NotReady),
        ["DAMAGED"] => Ok(Forgotten::Damaged),
        ["QUEUED"] => Ok(Forgotten::Queued),
        ["DEAD", epoch] => Ok(Forgotten::Dead {
            epoch: epoch.parse().map_err(|_| malformed("forget", &answer))?,
        }),
        _ => Err(malformed("forget", &answer)),
    }
}

/// Brings pause, waiters and end into Redis.
///
/// # Errors
/// When Redis gives no answer.
pub async fn amend<C: ConnectionLike + Send>(
    conn: &mut C,
    scripts: &Scripts,
    keys: &SaleKeys,
    amendment: &Amendment,
) -> Result<Amended, ScriptError> {
    let text = |number: Option<i64>| number.map(|n| n.to_string()).unwrap_or_default();
    let mut call = by_hash(&scripts.amend, &[keys.meta()]);
    call.arg(amendment.epoch)
        .arg(text(amendment.paused.map(i64::from)));
    call.arg(text(amendment.waiting))
        .arg(text(amendment.end_ms));
    let answer = ask_word(conn, &scripts.amend, &call).await?;
    match answer.as_str() {
        "DONE" => Ok(Amended::Done),
        "NOT_READY" => Ok(Amended::NotReady),
        "OTHER_EPOCH" => Ok(Amended::OtherEpoch),
        _ => Err(ScriptError::Malformed {
            script: "amend",
            answer,
        }),
    }
}

/// Sets the total, once for each version.
///
/// # Errors
/// When Redis gives no answer.
pub async fn adjust<C: ConnectionLike + Send>(
    conn: &mut C,
    scripts: &Scripts,
    keys: &SaleKeys,
    total: i64,
    version: i64,
) -> Result<Adjusted, ScriptError> {
    let mut call = by_hash(&scripts.adjust, &keys.all());
    call.arg(total).arg(version);
    let answer = ask_list(conn, &scripts.adjust, &call).await?;
    let number = |digits: &str| {
        digits
            .parse::<i64>()
            .map_err(|_| malformed("adjust", &answer))
    };
    match &words(&answer)[..] {
        ["NOT_READY"] => Ok(Adjusted::NotReady),
        ["DAMAGED"] => Ok(Adjusted::Damaged),
        ["OLDER", _] => Ok(Adjusted::Older),
        ["BELOW", held] => Ok(Adjusted::Below {
            held: number(held)?,
        }),
        ["DONE", epoch] => Ok(Adjusted::Done {
            epoch: number(epoch)?,
        }),
        _ => Err(malformed("adjust", &answer)),
    }
}

/// Bars a sale until `install`.
///
/// # Errors
/// When Redis gives no answer.
pub async fn begin_recovery<C: ConnectionLike + Send>(
    conn: &mut C,
    scripts: &Scripts,
    keys: &SaleKeys,
    token: &str,
) -> Result<(), ScriptError> {
    let mut call = by_text(&scripts.begin_recovery, &[keys.meta(), keys.recovery()]);
    call.arg(token).query_async::<i64>(conn).await?;
    Ok(())
}

/// Fills the temporary keys of a recovery.
///
/// # Errors
/// When Redis gives no answer.
pub async fn fill_temporary<C: ConnectionLike + Send>(
    conn: &mut C,
    keys: &SaleKeys,
    token: &str,
    fields: &Fields,
) -> Result<(), ScriptError> {
    for (part, entries) in [
        ("buyers", &fields.buyers),
        ("orders", &fields.orders),
        ("attempts", &fields.attempts),
    ] {
        let key = keys.temporary(part, token);
        for chunk in entries.chunks(FILL) {
            let mut fill = pipe();
            fill.hset_multiple(&key, chunk).ignore();
            fill.expire(&key, TEMPORARY_SECS).ignore();
            fill.query_async::<()>(conn).await?;
        }
    }
    Ok(())
}

/// Puts a recovered sale in place.
///
/// # Errors
/// When Redis gives no answer.
pub async fn install<C: ConnectionLike + Send>(
    conn: &mut C,
    scripts: &Scripts,
    keys: &SaleKeys,
    installation: &Installation<'_>,
) -> Result<Installed, ScriptError> {
    let Installation {
        token,
        counts,
        meta,
    } = *installation;
    let names = [
        keys.meta(),
        keys.stock(),
        keys.buyers(),
        keys.orders(),
        keys.outbox(),
        keys.attempts(),
        keys.recovery(),
        keys.temporary("buyers", token),
        keys.temporary("orders", token),
        keys.temporary("attempts", token),
        keys.dead(),
    ];
    let mut call = by_text(&scripts.install, &names);
    call.arg(token).arg(&counts).arg(meta.total).arg(meta.epoch);
    call.arg("begin_ms")
        .arg(meta.begin_ms)
        .arg("end_ms")
        .arg(meta.end_ms);
    call.arg("total")
        .arg(meta.total)
        .arg("limit")
        .arg(meta.limit)
        .arg("max_attempts")
        .arg(meta.max_attempts);
    call.arg("price")
        .arg(meta.price_minor)
        .arg("currency")
        .arg(&meta.currency);
    call.arg("epoch")
        .arg(meta.epoch)
        .arg("version")
        .arg(meta.version)
        .arg("paused")
        .arg(i32::from(meta.paused));
    call.arg("waiting")
        .arg(meta.waiting)
        .arg("taken")
        .arg(meta.taken);
    let answer = ask_word(conn, &scripts.install, &call).await?;
    match answer.as_str() {
        "DONE" => Ok(Installed::Done),
        "LOST" => Ok(Installed::Lost),
        "INCOMPLETE" => Ok(Installed::Incomplete),
        "OVERSOLD" => Ok(Installed::Oversold),
        _ => Err(ScriptError::Malformed {
            script: "install",
            answer,
        }),
    }
}

/// Reads a sale's keys in one step.
///
/// # Errors
/// When Redis gives no answer.
pub async fn inspect<C: ConnectionLike + Send>(
    conn: &mut C,
    scripts: &Scripts,
    keys: &SaleKeys,
) -> Result<Inspection, ScriptError> {
    let answer: Vec<Option<i64>> = by_text(&scripts.inspect, &keys.all())
        .query_async(conn)
        .await?;
    let &[
        epoch,
        total,
        version,
        paused,
        waiting,
        begin_ms,
        end_ms,
        taken,
        stock,
        recovering,
        buyers,
        orders,
        outbox,
        attempts,
        dead,
        outbox_epoch,
        attempts_epoch,
        foreign,
        damaged,
    ] = &answer[..]
    else {
        return Err(ScriptError::Malformed {
            script: "inspect",
            answer: format!("{answer:?}"),
        });
    };
    let count = |n: Option<i64>| n.unwrap_or(0);
    Ok(Inspection {
        epoch,
        total,
        version,
        paused: paused == Some(1),
        waiting,
        begin_ms,
        end_ms,
        taken,
        stock,
        recovering: recovering == Some(1),
        buyers: count(buyers),
        orders: count(orders),
        outbox: count(outbox),
        attempts: count(attempts),
        dead: count(dead),
        outbox_epoch,
        attempts_epoch,
        foreign: foreign == Some(1),
        damaged: damaged == Some(1),
    })
}

fn by_hash(script: &Script, keys: &[String]) -> Cmd {
    let mut call = cmd("EVALSHA");
    call.arg(&script.sha).arg(keys.len()).arg(keys);
    call
}

fn by_text(script: &Script, keys: &[String]) -> Cmd {
    let mut call = cmd("EVAL");
    call.arg(&script.text).arg(keys.len()).arg(keys);
    call
}

/// Calls a script that answers with a list.
async fn ask_list<C: ConnectionLike + Send>(
    conn: &mut C,
    script: &Script,
    call: &Cmd,
) -> Result<Vec<Value>, ScriptError> {
    match call.query_async(conn).await? {
        Value::Array(values) => Ok(values),
        other => Err(malformed(script.name, &[other])),
    }
}

/// Calls a script that answers with one word.
async fn ask_word<C: ConnectionLike + Send>(
    conn: &mut C,
    script: &Script,
    call: &Cmd,
) -> Result<String, ScriptError> {
    let answer: Value = call.query_async(conn).await?;
    match &answer {
        Value::BulkString(_) => text_of(&answer),
        _ => None,
    }
    .ok_or_else(|| malformed(script.name, &[answer]))
}

fn reserved(answer: &Value) -> Option<Reserved> {
    let Value::Array(values) = answer else {
        return None;
    };
    match &words(values)[..] {
        ["OK", order, slot, at, epoch] => Some(Reserved::Ok {
            order_id: order.parse().ok()?,
            slot: slot.parse().ok()?,
            reserved_at: at.parse().ok()?,
            epoch: epoch.parse().ok()?,
        }),
        ["ALREADY", order, same] => Some(Reserved::Already {
            order_id: order.parse().ok()?,
            same_request: *same == "1",
        }),
        ["ID_TAKEN"] => Some(Reserved::IdTaken),
        ["DEAD"] => Some(Reserved::Dead),
        ["NO_ATTEMPTS"] => Some(Reserved::NoAttempts),
        ["SOLD_OUT", epoch, taken] => Some(Reserved::SoldOut {
            epoch: epoch.parse().ok()?,
            taken: taken.parse().ok()?,
        }),
        _ => None,
    }
}

/// The words of an answer; anything but text stands as an empty one.
fn words(values: &[Value]) -> Vec<&str> {
    values.iter().map(word).collect()
}

fn word(value: &Value) -> &str {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        _ => "",
    }
}

fn text_of(value: &Value) -> Option<String> {
    String::from_redis_value_ref(value).ok()
}

fn number_of(value: &Value) -> Option<i64> {
    i64::from_redis_value_ref(value).ok()
}

fn malformed(script: &'static str, answer: &[Value]) -> ScriptError {
    ScriptError::Malformed {
        script,
        answer: format!("{answer:?}"),
    }
}
