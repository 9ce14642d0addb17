//! Whether the stores agree: the invariants of a flash sale, checked over all sales that were opened. Looks only;
//! it repairs nothing, and it may run beside a sale.

mod database;
mod offers;
mod redis;

use super::{Error, Orders};

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// It holds.
    Ok,
    /// It is broken; says where.
    Fail(String),
    /// It cannot be checked from the stores alone.
    NotApplicable,
}

/// One invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// `I1` to `I8`.
    pub name: &'static str,
    /// What it says, and how much was looked at.
    pub what: String,
    /// What came of it.
    pub outcome: CheckOutcome,
}

impl Check {
    /// A check whose findings say where it is broken; none: it holds.
    pub fn of(name: &'static str, what: impl Into<String>, findings: &[String]) -> Self {
        let outcome = if findings.is_empty() {
            CheckOutcome::Ok
        } else {
            CheckOutcome::Fail(findings.join("; "))
        };
        Self {
            name,
            what: what.into(),
            outcome,
        }
    }

    /// A check that the stores alone cannot answer.
    pub fn not_applicable(name: &'static str, what: impl Into<String>) -> Self {
        Self {
            name,
            what: what.into(),
            outcome: CheckOutcome::NotApplicable,
        }
    }

    /// Whether it is broken.
    pub fn is_failed(&self) -> bool {
        matches!(self.outcome, CheckOutcome::Fail(_))
    }
}

impl std::fmt::Display for Check {
    /// One line: `I1 ok   what` or `I5 FAIL what: where`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name,
            what,
            outcome,
        } = self;
        match outcome {
            CheckOutcome::Ok => write!(f, "{name} ok   {what}"),
            CheckOutcome::Fail(findings) => write!(f, "{name} FAIL {what}: {findings}"),
            CheckOutcome::NotApplicable => write!(f, "{name} n/a  {what}"),
        }
    }
}

impl Orders {
    /// Checks the invariants I1, I2, I4, I5 and I6, in this order; the others are listed as not applicable.
    ///
    /// Safe beside a running sale: what is on its way counts as on its way, and is looked at again for up to 5 s
    /// before it counts as broken. Costs a few queries a sale and one pass over the ids of open sales.
    ///
    /// # Errors
    /// When the database cannot be asked. Trouble of Redis makes I5 fail.
    pub async fn verify(&self) -> Result<Vec<Check>, Error> {
        Ok(vec![
            self.check_sold().await?,
            self.check_units().await?,
            Check::not_applicable(
                "I3",
                "every accepted order is one row: needs a client's history, see `drill`",
            ),
            self.check_payments().await?,
            self.check_redis().await?,
            self.check_work().await?,
            Check::not_applicable(
                "I7",
                "nobody sees another's order: needs a client's history, see `drill`",
            ),
            Check::not_applicable(
                "I8",
                "no panic, no leak: needs the process's own log and memory",
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::Check;

    #[test]
    fn a_check_is_one_line_that_begins_with_its_name_and_outcome() {
        assert_eq!(
            Check::of("I1", "counters", &[]).to_string(),
            "I1 ok   counters"
        );
        let broken = Check::of(
            "I5",
            "redis",
            &["sale 1: x".to_owned(), "sale 2: y".to_owned()],
        );
        assert_eq!(broken.to_string(), "I5 FAIL redis: sale 1: x; sale 2: y");
        assert!(broken.is_failed());
        assert_eq!(
            Check::not_applicable("I3", "history").to_string(),
            "I3 n/a  history"
        );
    }
}
