//! What must be true when the sale is over: the client's history against the stores. I3 and I7 are judged here, for
//! only the history knows them; the rest is `verify`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use anyhow::Context;
use domain::Services;
use domain::orders::reconcile::{Check, CheckOutcome};
use domain::orders::store::Found;
use domain::orders::{OrderId, OrderKey};
use domain::users::UserId;
use serde_json::{Value, json};

use super::buyer::Buyer;
use super::{Click, Said, Samples, Venue};

/// How long the rows of accepted orders may take.
const QUIET_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Orders of others that are asked for.
const PEEKS: usize = 50;
/// Findings of one kind that are told.
const TOLD: usize = 5;
const PEEK: &str = "query($id: ID!) { viewer { order(id: $id) { id } } }";

/// Waits until the outbox is empty and every accepted order has a row or a reject; `Err` says what is left after 60 s.
pub(super) async fn wait_until_quiet(
    services: &Services,
    venue: &Venue,
    history: &[Click],
) -> Result<Duration, String> {
    let mut missing: Vec<OrderId> = accepted(services, history)
        .keys()
        .map(|key| key.order)
        .collect();
    let began = Instant::now();
    loop {
        let queued = match services.orders.books(venue.voucher_id).await {
            Ok(books) if !books.not_ready() => Some(books.queued()),
            Ok(_) | Err(_) => None,
        };
        if let Ok(found) = services.orders.store().find(&missing).await {
            missing.retain(|order| !found.contains_key(order));
        }
        if queued == Some(0) && missing.is_empty() {
            return Ok(began.elapsed());
        }
        if began.elapsed() > QUIET_LIMIT {
            let queued = queued.map_or("an unreadable number of".to_owned(), |n| n.to_string());
            return Err(format!(
                "after {QUIET_LIMIT:?}: {queued} orders queued, {} accepted orders without a row",
                missing.len()
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// All invariants: those of the stores, and those of the history in the places of their names.
pub(super) async fn check(
    services: &Services,
    venue: &Venue,
    buyers: &[Buyer],
    history: &[Click],
    samples: &Samples,
) -> anyhow::Result<Vec<Check>> {
    let history_checks = [
        check_accepted(services, venue, history).await?,
        check_privacy(services, venue, buyers, history).await,
    ];
    let mut checks = services
        .orders
        .verify()
        .await
        .context("verify the stores")?;
    for check in &mut checks {
        if let Some(known) = history_checks.iter().find(|known| known.name == check.name) {
            *check = known.clone();
        }
        if check.name == "I5" {
            add_samples(check, samples);
        }
    }
    Ok(checks)
}

/// The accepted orders with the users who were told so; IDs that do not open are left out.
fn accepted(services: &Services, history: &[Click]) -> HashMap<OrderKey, BTreeSet<UserId>> {
    let mut accepted: HashMap<OrderKey, BTreeSet<UserId>> = HashMap::new();
    for click in history {
        if let Said::Accepted(id) = &click.said
            && let Some(key) = services.orders.open(id)
        {
            accepted.entry(key).or_default().insert(click.user);
        }
    }
    accepted
}

/// I3: every ACCEPTED is exactly one row of the right user, and none of them was rejected.
async fn check_accepted(
    services: &Services,
    venue: &Venue,
    history: &[Click],
) -> anyhow::Result<Check> {
    let mut findings = Findings::default();
    let accepted = accepted(services, history);
    let ids: Vec<OrderId> = accepted.keys().map(|key| key.order).collect();
    let found = services
        .orders
        .store()
        .find(&ids)
        .await
        .context("look for the accepted orders")?;
    for (key, users) in &accepted {
        match found.get(&key.order) {
            None => findings.add("accepted, and nowhere", key.order.0),
            Some(Found::Reject(_)) => findings.add("accepted, and rejected", key.order.0),
            Some(Found::Row(row)) => {
                let right = row.voucher_id == venue.voucher_id.0
                    && users.iter().all(|user| user.0 == row.user_id);
                if !right {
                    findings.add("accepted for one user, written for another", key.order.0);
                }
            }
        }
    }
    let mut by_request: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for click in history {
        if let Said::Accepted(id) = &click.said {
            by_request.entry(&click.request).or_default().insert(id);
            if services.orders.open(id).is_none() {
                findings.add("accepted under an ID that does not open", click.user.0);
            }
        }
    }
    by_request
        .iter()
        .filter(|(_, ids)| ids.len() > 1)
        .for_each(|(request, _)| findings.add("one request, two orders", request));
    Ok(Check::of(
        "I3",
        format!(
            "every accepted order is one row of its buyer ({} orders)",
            accepted.len()
        ),
        &findings.told(),
    ))
}

/// I7: nobody saw another user's order, neither in an answer nor when he asked for it.
async fn check_privacy(
    services: &Services,
    venue: &Venue,
    buyers: &[Buyer],
    history: &[Click],
) -> Check {
    let mut findings = Findings::default();
    let mut seen: Vec<(&str, UserId)> = Vec::new();
    for click in history {
        let (Said::Accepted(id) | Said::Already(id) | Said::Pending(id)) = &click.said else {
            continue;
        };
        seen.push((id, click.user));
        if services
            .orders
            .open(id)
            .is_some_and(|key| key.buyer != click.user)
        {
            findings.add("a user was shown another's order", click.user.0);
        }
    }
    let step = (seen.len() / PEEKS).max(1);
    let (mut peeks, mut unanswered) = (0, 0);
    for (number, (id, owner)) in seen.iter().step_by(step).take(PEEKS).enumerate() {
        let Some(other) = buyers
            .iter()
            .cycle()
            .skip(number)
            .take(buyers.len())
            .find(|b| b.user != *owner)
        else {
            break;
        };
        let counter = &venue.counters[number % venue.counters.len()];
        match counter.ask(&other.token, PEEK, json!({ "id": id })).await {
            Ok(answer)
                if answer
                    .pointer("/data/viewer/order")
                    .is_some_and(|order| !order.is_null()) =>
            {
                findings.add("a user could read another's order", other.user.0);
            }
            Ok(answer) if answer.get("data").is_some_and(|data| data != &Value::Null) => peeks += 1,
            Ok(_) | Err(_) => unanswered += 1,
        }
    }
    let mut what = format!(
        "nobody sees another's order ({} answers, {peeks} tries)",
        seen.len()
    );
    if unanswered > 0 {
        what.push_str(&format!(", {unanswered} tries without an answer"));
    }
    Check::of("I7", what, &findings.told())
}

fn add_samples(check: &mut Check, samples: &Samples) {
    check.what.push_str(&format!(", {} samples", samples.seen));
    if samples.violations.is_empty() {
        return;
    }
    let during = format!("during the sale: {}", samples.violations.join("; "));
    check.outcome = match &check.outcome {
        CheckOutcome::Fail(also) => CheckOutcome::Fail(format!("{also}; {during}")),
        CheckOutcome::Ok | CheckOutcome::NotApplicable => CheckOutcome::Fail(during),
    };
}

/// What is wrong, by kind, with the first few examples of each.
#[derive(Default)]
struct Findings {
    by_kind: BTreeMap<&'static str, (usize, Vec<String>)>,
}

impl Findings {
    fn add(&mut self, kind: &'static str, example: impl ToString) {
        let (count, examples) = self.by_kind.entry(kind).or_default();
        *count += 1;
        if examples.len() < TOLD {
            examples.push(example.to_string());
        }
    }

    fn told(&self) -> Vec<String> {
        self.by_kind
            .iter()
            .map(|(kind, (count, examples))| format!("{count} × {kind}: {}", examples.join(", ")))
            .collect()
    }
}
