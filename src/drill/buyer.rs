//! One buyer and his habits, and the way his clicks take. What must be true of them is `oracle`.

use std::time::{Duration, Instant};

use anyhow::Context;
use domain::users::{MintedSession, UserId};
use rand::Rng;
use serde_json::{Value, json};

use super::{Click, Said, Venue};

/// No answer may take longer; one that does counts as none.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How often a buyer tries again when he is told to, or hears nothing.
const TRIES: u32 = 8;
/// How long a buyer waits who was not told how long.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest a buyer waits before he tries again.
const PAUSE_MOST: Duration = Duration::from_secs(2);
/// A buyer who hangs up does it within this time.
const HANG_UP_WITHIN_MS: u64 = 20;
const SECKILL: &str = "mutation($input: SeckillVoucherInput!) { seckillVoucher(input: $input) { result { __typename \
    ... on SeckillAccepted { order { id } } ... on SeckillPending { orderId } ... on AlreadyOrdered { order { id } } \
    ... on RateLimited { retryAfterMs } ... on TryLater { retryAfterMs } } } }";

/// One server, as clients reach it.
pub(super) struct Counter {
    http: reqwest::Client,
    graphql: String,
}

impl Counter {
    /// The server of a base URL.
    pub(super) fn at(url: &str, clients: u32) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(ANSWER_LIMIT)
            .pool_max_idle_per_host(usize::try_from(clients).unwrap_or(usize::MAX))
            .build()
            .context("make an HTTP client")?;
        Ok(Self {
            http,
            graphql: format!("{}/graphql", url.trim_end_matches('/')),
        })
    }

    /// Runs one operation; the whole answer.
    pub(super) async fn ask(
        &self,
        token: &str,
        query: &str,
        variables: Value,
    ) -> reqwest::Result<Value> {
        let body = json!({ "query": query, "variables": variables });
        self.http
            .post(&self.graphql)
            .bearer_auth(token)
            .json(&body)
            .send()
            .await?
            .json()
            .await
    }
}

/// What a buyer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Clicks once.
    Once,
    /// Clicks twice at the same moment, with one request id.
    DoubleClick,
    /// Clicks again under another request id when he has his answer.
    AsksAgain,
    /// Hangs up after so long; then comes back with the same request id, or never.
    HangsUp { after: Duration, comes_back: bool },
}

/// One buyer.
pub(super) struct Buyer {
    pub(super) user: UserId,
    pub(super) token: String,
    number: usize,
    request: String,
    habit: Habit,
}

impl Buyer {
    /// Gives a user his habit: a tenth double-click, a tenth ask again, a twentieth hang up.
    pub(super) fn new(number: usize, session: MintedSession, run: &str) -> Self {
        let mut rng = rand::rng();
        let habit = match rng.random_range(0..20) {
            0 | 1 => Habit::DoubleClick,
            2 | 3 => Habit::AsksAgain,
            4 => Habit::HangsUp {
                after: Duration::from_millis(rng.random_range(0..=HANG_UP_WITHIN_MS)),
                comes_back: rng.random(),
            },
            _ => Habit::Once,
        };
        Self {
            user: session.user_id,
            token: session.token,
            number,
            request: format!("{run}-{number}"),
            habit,
        }
    }

    /// Does all his clicks, and returns what came of them.
    pub(super) async fn visit(&self, venue: &Venue) -> Vec<Click> {
        match self.habit {
            Habit::Once => self.insist(venue, &self.request).await,
            Habit::DoubleClick => {
                let (mut first, second) = tokio::join!(
                    self.insist(venue, &self.request),
                    self.insist(venue, &self.request)
                );
                first.extend(second);
                first
            }
            Habit::AsksAgain => {
                let mut clicks = self.insist(venue, &self.request).await;
                clicks.extend(self.insist(venue, &format!("{}-again", self.request)).await);
                clicks
            }
            Habit::HangsUp { after, comes_back } => {
                let clicked =
                    tokio::time::timeout(after, self.click(venue, &self.request, 0)).await;
                let mut clicks = vec![match clicked {
                    Ok((click, _)) => click,
                    Err(_) => self.unanswered(&self.request),
                }];
                if comes_back {
                    clicks.extend(self.insist(venue, &self.request).await);
                }
                clicks
            }
        }
    }

    /// Clicks until he has an answer that is one; each time with the same request id, each time at the next server.
    async fn insist(&self, venue: &Venue, request: &str) -> Vec<Click> {
        let mut clicks = Vec::new();
        for attempt in 0..TRIES {
            let (click, pause) = self.click(venue, request, attempt).await;
            clicks.push(click);
            let Some(pause) = pause else { break };
            tokio::time::sleep(pause.min(PAUSE_MOST)).await;
        }
        clicks
    }

    /// One click, and how long to wait before the next if this one came to nothing.
    async fn click(&self, venue: &Venue, request: &str, attempt: u32) -> (Click, Option<Duration>) {
        let turn = self.number.wrapping_add(attempt as usize);
        let counter = &venue.counters[turn % venue.counters.len()];
        let input = json!({ "voucherId": venue.voucher, "clientRequestId": request });
        let began = Instant::now();
        match counter
            .ask(&self.token, SECKILL, json!({ "input": input }))
            .await
        {
            Ok(answer) => {
                let latency = Some(began.elapsed());
                let (said, pause) = read(&answer);
                (
                    Click {
                        user: self.user,
                        request: request.to_owned(),
                        said,
                        latency,
                    },
                    pause,
                )
            }
            Err(_) => (self.unanswered(request), Some(PAUSE)),
        }
    }

    fn unanswered(&self, request: &str) -> Click {
        Click {
            user: self.user,
            request: request.to_owned(),
            said: Said::Unknown,
            latency: None,
        }
    }
}

/// What an answer says, and how long to wait where it says "not now".
fn read(answer: &Value) -> (Said, Option<Duration>) {
    if let Some(error) = answer.pointer("/errors/0") {
        let code = error
            .pointer("/extensions/code")
            .and_then(Value::as_str)
            .unwrap_or("ERROR");
        let pause = matches!(code, "TRY_LATER" | "UNAVAILABLE" | "RATE_LIMITED")
            .then(|| pause_of(&error["extensions"]));
        return (Said::Refused(code.to_owned()), pause);
    }
    let result = answer
        .pointer("/data/seckillVoucher/result")
        .unwrap_or(&Value::Null);
    let order = |path: &str| {
        result
            .pointer(path)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    match result["__typename"].as_str().unwrap_or("NO_ANSWER") {
        "SeckillAccepted" => (Said::Accepted(order("/order/id")), None),
        "AlreadyOrdered" => (Said::Already(order("/order/id")), None),
        "SeckillPending" => (Said::Pending(order("/orderId")), None),
        kind @ ("TryLater" | "RateLimited") => {
            (Said::Refused(kind.to_owned()), Some(pause_of(result)))
        }
        kind => (Said::Refused(kind.to_owned()), None),
    }
}

fn pause_of(holder: &Value) -> Duration {
    holder["retryAfterMs"]
        .as_u64()
        .map_or(PAUSE, Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_clients_read_them() {
        let result = |result: Value| json!({ "data": { "seckillVoucher": { "result": result } } });
        let accepted = result(json!({ "__typename": "SeckillAccepted", "order": { "id": "x" } }));
        assert_eq!(read(&accepted), (Said::Accepted("x".to_owned()), None));
        let later = result(json!({ "__typename": "TryLater", "retryAfterMs": 500 }));
        assert_eq!(
            read(&later),
            (
                Said::Refused("TryLater".to_owned()),
                Some(Duration::from_millis(500))
            )
        );
        let sold_out = result(json!({ "__typename": "SoldOut" }));
        assert_eq!(read(&sold_out), (Said::Refused("SoldOut".to_owned()), None));
        let unavailable = json!({ "data": null, "errors": [{ "message": "", "extensions": { "code": "UNAVAILABLE" } }] });
        assert_eq!(
            read(&unavailable),
            (Said::Refused("UNAVAILABLE".to_owned()), Some(PAUSE))
        );
    }
}
