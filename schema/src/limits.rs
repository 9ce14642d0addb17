//! What one operation may ask for, and how often somebody may ask. Limits on calls are declared here and named at
//! their field: `#[graphql(guard = "Limited(&LISTS)")]`. Each alias is a call.

use std::time::Duration;

use async_graphql::{Context, Guard, Result};
use domain::rate_limits::{Caller, Dimension, OnTrouble, Rule, Shape};

use crate::context::ContextExt;
use crate::error::api_error;

const MINUTE: Duration = Duration::from_secs(60);

/// Codes shown at a till: far more than a shop redeems.
pub(crate) const REDEEMS: Rule = Rule {
    name: "redeems",
    shape: Shape::Window {
        calls: 300,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many codes; slow down",
};

/// Codes that are wrong: a person mistypes some, a guesser many.
pub(crate) const WRONG_CODES: Rule = Rule {
    name: "wrong_codes",
    shape: Shape::Window {
        calls: 20,
        window: Duration::from_secs(600),
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Closed,
    message: "too many wrong codes; wait before the next",
};

/// Reviews written and deleted.
pub(crate) const REVIEW_WRITES: Rule = Rule {
    name: "review_writes",
    shape: Shape::Window {
        calls: 30,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many reviews; slow down",
};

/// Lists and searches: far more than a person scrolls.
pub(crate) const LISTS: Rule = Rule {
    name: "lists",
    shape: Shape::Window {
        calls: 600,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many lists and searches; slow down",
};

/// Notes that are published, changed or deleted.
pub(crate) const BLOG_WRITES: Rule = Rule {
    name: "blog_writes",
    shape: Shape::Window {
        calls: 120,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many notes; slow down",
};

/// Likes that come and go: more than a finger taps.
pub(crate) const LIKES: Rule = Rule {
    name: "likes",
    shape: Shape::Window {
        calls: 300,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many likes; slow down",
};

/// Comments that are added or deleted.
pub(crate) const COMMENT_WRITES: Rule = Rule {
    name: "comment_writes",
    shape: Shape::Window {
        calls: 120,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many comments; slow down",
};

/// What a merchant writes.
pub(crate) const MERCHANT_WRITES: Rule = Rule {
    name: "merchant_writes",
    shape: Shape::Window {
        calls: 120,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many changes; slow down",
};

/// What a buyer does with his orders, each a few writes of ours. The click in a sale has a limit of its own.
pub(crate) const ORDER_WRITES: Rule = Rule {
    name: "order_writes",
    shape: Shape::Window {
        calls: 60,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many payments and cancellations; slow down",
};

/// Marks of what was read: a device sets one at each look.
pub(crate) const MARKS: Rule = Rule {
    name: "marks",
    shape: Shape::Window {
        calls: 240,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many marks; slow down",
};

/// Following and unfollowing: far more than a person taps.
pub(crate) const FOLLOW_WRITES: Rule = Rule {
    name: "follow_writes",
    shape: Shape::Window {
        calls: 300,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "you follow too many people too fast; slow down",
};

/// Messages to others: faster than anybody types, on several devices.
pub(crate) const MESSAGES: Rule = Rule {
    name: "messages",
    shape: Shape::Window {
        calls: 240,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many messages; slow down",
};

/// Changes of a profile.
pub(crate) const PROFILE_WRITES: Rule = Rule {
    name: "profile_writes",
    shape: Shape::Window {
        calls: 20,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many changes of your profile; slow down",
};

/// Pictures that are deleted.
pub(crate) const IMAGE_WRITES: Rule = Rule {
    name: "image_writes",
    shape: Shape::Window {
        calls: 60,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many pictures deleted; slow down",
};

/// Sign-ins: one a day, and a month made up at most.
pub(crate) const SIGN_INS: Rule = Rule {
    name: "sign_ins",
    shape: Shape::Window {
        calls: 60,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many sign-ins; slow down",
};

/// Figures made again: each is a few hundred questions to the database.
pub(crate) const RECOMPUTATIONS: Rule = Rule {
    name: "recomputations",
    shape: Shape::Window {
        calls: 30,
        window: MINUTE,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Open,
    message: "too many days to compute; slow down",
};

/// Lets a call through that is below its limit.
pub(crate) struct Limited(pub(crate) &'static Rule);

/// Who calls, as limits count.
pub(crate) fn caller(ctx: &Context<'_>) -> Caller {
    let meta = ctx.meta();
    Caller {
        user: ctx.viewer().map(|session| session.user_id.0),
        ip: meta.ip,
        device: meta.device_id.clone(),
    }
}

impl Guard for Limited {
    async fn check(&self, ctx: &Context<'_>) -> Result<()> {
        ctx.services()
            .rate_limits
            .check(self.0, &caller(ctx))
            .await
            .map_err(api_error)
    }
}

/// Limits of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Production: no introspection, no suggestions in errors.
    pub production: bool,
    /// Deepest nesting of fields.
    pub depth: usize,
    /// Largest cost, where a field costs 1 and a list costs its page size times what is in it.
    pub complexity: usize,
    /// Deepest recursion of the parser.
    pub recursion: usize,
    /// Most directives on one field.
    pub directives: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // GraphiQL's own introspection needs depth 15 and recursion 17.
        Self {
            production: false,
            depth: 16,
            complexity: 5_000,
            recursion: 24,
            directives: 10,
        }
    }
}
