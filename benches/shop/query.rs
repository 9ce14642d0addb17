//! The query `shop` of the product, answered from a constant.

use async_graphql::{EmptyMutation, EmptySubscription, ID, Object, Schema, SchemaBuilder};

pub(crate) struct Query;

struct Shop {
    id: ID,
}

struct Location;

/// As many words as a shop of the demo data has.
#[Object]
impl Shop {
    async fn id(&self) -> &ID {
        &self.id
    }

    async fn name(&self) -> &str {
        "Phở gia truyền Bát Đàn"
    }

    async fn area(&self) -> Option<&str> {
        Some("Hoàn Kiếm")
    }

    async fn address(&self) -> Option<&str> {
        Some("49 Bát Đàn")
    }

    async fn score(&self) -> Option<f64> {
        Some(4.5)
    }

    async fn sold_count(&self) -> i32 {
        4_215
    }

    async fn comment_count(&self) -> i32 {
        3_035
    }

    async fn images(&self) -> Vec<String> {
        Vec::new()
    }

    async fn open_hours(&self) -> Option<&str> {
        Some("Mo-Su 06:00-10:00")
    }

    async fn location(&self) -> Location {
        Location
    }
}

#[Object]
impl Location {
    async fn latitude(&self) -> f64 {
        21.033_4
    }

    async fn longitude(&self) -> f64 {
        105.846_2
    }
}

#[Object]
impl Query {
    async fn shop(&self, id: ID) -> Option<Shop> {
        Some(Shop { id })
    }
}

pub(crate) fn builder() -> SchemaBuilder<Query, EmptyMutation, EmptySubscription> {
    Schema::build(Query, EmptyMutation, EmptySubscription)
}
