//! What a drill came to, as figures and as text for a person.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use domain::orders::OrderRow;
use domain::orders::reconcile::Check;

use super::{Click, DrillOptions, Said};

/// How long answers took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Half of the answers came sooner.
    pub p50: Duration,
    /// Nine of ten.
    pub p90: Duration,
    /// All but one of a hundred.
    pub p99: Duration,
    /// The slowest.
    pub max: Duration,
}

impl Latency {
    fn of(mut answers: Vec<Duration>) -> Self {
        answers.sort_unstable();
        let at = |percent: usize| {
            let rank = (answers.len() * percent).div_ceil(100).max(1) - 1;
            answers.get(rank).copied().unwrap_or_default()
        };
        Self {
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: at(100),
        }
    }
}

/// What a drill came to.
#[derive(Clone, Debug)]
pub struct DrillReport {
    /// Units that were for sale.
    pub stock: u32,
    /// Buyers who clicked.
    pub users: u32,
    /// Buyers at a time.
    pub clients: u32,
    /// From the first click to the last answer.
    pub took: Duration,
    /// Different orders that were accepted.
    pub accepted: usize,
    /// Answers by the result's type or the error's code.
    pub answers: BTreeMap<String, usize>,
    /// Clicks without an answer.
    pub unanswered: usize,
    /// How long answers took.
    pub latency: Latency,
    /// Orders that have a row.
    pub rows: usize,
    /// Rows a second, from the first unit taken to the last row written.
    pub rows_per_second: f64,
    /// How long the last rows were waited for.
    pub settled_after: Option<Duration>,
    /// Times that I5 was looked at during the sale.
    pub samples: u64,
    /// The invariants.
    pub checks: Vec<Check>,
    /// What is wrong beyond them; empty when nothing is.
    pub problems: Vec<String>,
}

/// What was found after the sale.
pub(super) struct Findings {
    pub(super) settled: Result<Duration, String>,
    pub(super) checks: Vec<Check>,
    pub(super) samples: u64,
}

impl DrillReport {
    pub(super) fn new(
        options: &DrillOptions,
        history: &[Click],
        took: Duration,
        rows: &[OrderRow],
        found: Findings,
    ) -> Self {
        let mut answers = BTreeMap::new();
        let mut accepted = BTreeSet::new();
        for click in history {
            let kind = match &click.said {
                Said::Accepted(id) => {
                    accepted.insert(id);
                    "SeckillAccepted"
                }
                Said::Already(_) => "AlreadyOrdered",
                Said::Pending(_) => "SeckillPending",
                Said::Refused(kind) => kind,
                Said::Unknown => continue,
            };
            *answers.entry(kind.to_owned()).or_default() += 1;
        }
        let mut problems: Vec<String> = found.settled.as_ref().err().cloned().into_iter().collect();
        if answers.contains_key("SoldOut") && rows.len() < options.stock as usize {
            problems.push(format!(
                "buyers were told that nothing is left, but only {} of {} units became orders",
                rows.len(),
                options.stock
            ));
        }
        Self {
            stock: options.stock,
            users: options.users,
            clients: options.clients,
            took,
            accepted: accepted.len(),
            answers,
            unanswered: history
                .iter()
                .filter(|click| click.said == Said::Unknown)
                .count(),
            latency: Latency::of(history.iter().filter_map(|click| click.latency).collect()),
            rows: rows.len(),
            rows_per_second: rows_per_second(rows),
            settled_after: found.settled.ok(),
            samples: found.samples,
            checks: found.checks,
            problems,
        }
    }

    /// Whether everything holds.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty() && !self.checks.iter().any(Check::is_failed)
    }
}

fn rows_per_second(rows: &[OrderRow]) -> f64 {
    let first = rows.iter().map(|row| row.reserved_at).min();
    let last = rows.iter().map(|row| row.created_at).max();
    let Some((first, last)) = first.zip(last) else {
        return 0.0;
    };
    rows.len() as f64 * 1_000.0 / ((last - first).max(1) as f64)
}

impl fmt::Display for DrillReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        let Latency { p50, p90, p99, max } = self.latency;
        writeln!(
            f,
            "sale       {} units, {} users, {} clients, {:.1} s",
            self.stock,
            self.users,
            self.clients,
            self.took.as_secs_f64()
        )?;
        writeln!(f, "accepted   {} orders", self.accepted)?;
        writeln!(f, "answers    {}", listed(&self.answers))?;
        writeln!(f, "unanswered {}", self.unanswered)?;
        writeln!(
            f,
            "latency    p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
            millis(p50),
            millis(p90),
            millis(p99),
            millis(max)
        )?;
        write!(
            f,
            "persisted  {} rows, {:.0} a second",
            self.rows, self.rows_per_second
        )?;
        if let Some(after) = self.settled_after {
            write!(
                f,
                ", all written {:.1} s after the last answer",
                after.as_secs_f64()
            )?;
        }
        writeln!(f)?;
        for problem in &self.problems {
            writeln!(f, "problem    {problem}")?;
        }
        for check in &self.checks {
            writeln!(f, "{check}")?;
        }
        Ok(())
    }
}

fn listed(answers: &BTreeMap<String, usize>) -> String {
    answers
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_answers_that_were_given() {
        let answers = (1..=200).rev().map(Duration::from_millis).collect();
        let latency = Latency::of(answers);
        let millis = [latency.p50, latency.p90, latency.p99, latency.max].map(|d| d.as_millis());
        assert_eq!(millis, [100, 180, 198, 200]);
        let one = Latency::of(vec![Duration::from_millis(7)]);
        assert_eq!([one.p50, one.max], [Duration::from_millis(7); 2]);
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }
}
