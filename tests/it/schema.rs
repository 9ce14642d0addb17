//! The contract: the committed schema is the one that is served, everything in it is described, and who may do what
//! is written down.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::app::TestApp;

fn committed() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schema/schema.graphql")
}

/// `UPDATE_SCHEMA=1 cargo test --test it schema::` rewrites it.
#[test]
fn the_committed_schema_is_the_one_that_is_served() {
    let served = schema::sdl();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(committed(), &served).unwrap();
    }
    let committed = std::fs::read_to_string(committed()).unwrap_or_default();
    assert!(
        committed == served,
        "schema/schema.graphql is behind: run `make schema` and look at the difference"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_field_argument_and_value_is_described() {
    let app = TestApp::start().await;
    let query = "{ __schema { types { name kind description
        fields(includeDeprecated: true) { name description args { name description } }
        inputFields { name description } enumValues(includeDeprecated: true) { name description } } } }";
    let answer = app.gql(query, Value::Null).await;
    let mut bare = Vec::new();
    let described = |value: &Value| {
        value["description"]
            .as_str()
            .is_some_and(|d| !d.trim().is_empty())
    };
    let empty = Vec::new();
    for kind in answer.list("__schema.types") {
        let name = kind["name"].as_str().unwrap();
        if name.starts_with("__") || ["Int", "Float", "String", "Boolean", "ID"].contains(&name) {
            continue;
        }
        if !described(kind) {
            bare.push(name.to_owned());
        }
        for part in ["fields", "inputFields", "enumValues"] {
            for member in kind[part].as_array().unwrap_or(&empty) {
                let path = format!("{name}.{}", member["name"].as_str().unwrap());
                let is_input_argument = |arg: &Value| arg["name"] == "input";
                for arg in member["args"].as_array().unwrap_or(&empty) {
                    if !described(arg) && !is_input_argument(arg) {
                        bare.push(format!("{path}({})", arg["name"].as_str().unwrap()));
                    }
                }
                if !described(member) {
                    bare.push(path);
                }
            }
        }
    }
    assert!(bare.is_empty(), "without a description: {bare:#?}");
    app.finish().await;
}

/// Who may use each root field. A field that is missing here is one nobody has thought about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_root_field_has_its_rule_and_keeps_it() {
    let rules: BTreeMap<&str, &str> = BTreeMap::from([
        ("Query.node", "anybody"),
        ("Query.nodes", "anybody"),
        ("Query.serverTime", "anybody"),
        ("Query.viewer", "anybody"),
        ("Query.user", "anybody"),
        ("Query.shopTypes", "anybody"),
        ("Query.shop", "anybody"),
        ("Query.shops", "anybody"),
        ("Query.shopsNearby", "anybody"),
        ("Query.voucher", "anybody"),
        ("Query.flashSales", "anybody"),
        ("Query.blog", "anybody"),
        ("Query.hotBlogs", "anybody"),
        ("Query.featureSwitches", "administrator"),
        ("Query.statistics", "administrator"),
        ("Query.statisticsProgress", "administrator"),
        ("Mutation.recomputeStatistics", "administrator"),
        ("Mutation.requestLoginCode", "anybody"),
        ("Mutation.login", "anybody"),
        ("Mutation.logout", "signed in"),
        ("Mutation.updateProfile", "signed in"),
        ("Mutation.createShop", "merchant"),
        ("Mutation.updateShop", "merchant"),
        ("Mutation.closeShop", "merchant"),
        ("Mutation.createVoucher", "merchant"),
        ("Mutation.publishVoucher", "merchant"),
        ("Mutation.pauseVoucher", "merchant"),
        ("Mutation.resumeVoucher", "merchant"),
        ("Mutation.endVoucher", "merchant"),
        ("Mutation.adjustVoucherStock", "merchant"),
        ("Mutation.setFeatureSwitch", "administrator"),
        ("Mutation.setUserBanned", "administrator"),
        ("Mutation.deleteImage", "signed in"),
        ("Mutation.follow", "signed in"),
        ("Mutation.unfollow", "signed in"),
        ("Mutation.signIn", "signed in"),
        ("Mutation.seckillVoucher", "signed in"),
        ("Mutation.payOrder", "signed in"),
        ("Mutation.cancelOrder", "signed in"),
        ("Mutation.sandboxPay", "signed in"),
        ("Mutation.markNotificationsRead", "signed in"),
        ("Mutation.joinWaitlist", "signed in"),
        ("Mutation.leaveWaitlist", "signed in"),
        ("Mutation.remindMe", "signed in"),
        ("Mutation.cancelReminder", "signed in"),
        ("Mutation.sendMessage", "signed in"),
        ("Mutation.markConversationRead", "signed in"),
        ("Subscription.messageReceived", "signed in"),
        ("Subscription.notificationReceived", "signed in"),
        ("Mutation.claimVoucher", "signed in"),
        ("Mutation.redeemOrder", "merchant"),
        ("Mutation.addReview", "signed in"),
        ("Mutation.deleteReview", "signed in"),
        ("Mutation.refundOrder", "signed in"),
        ("Mutation.publishBlog", "signed in"),
        ("Mutation.updateBlog", "signed in"),
        ("Mutation.deleteBlog", "signed in"),
        ("Mutation.likeBlog", "signed in"),
        ("Mutation.unlikeBlog", "signed in"),
        ("Mutation.addComment", "signed in"),
        ("Mutation.deleteComment", "signed in"),
        ("Subscription.orderStatus", "signed in"),
        ("Subscription.orderUpdates", "signed in"),
        ("Subscription.feed", "signed in"),
        ("Subscription.voucherStock", "anybody"),
    ]);
    let app = TestApp::start().await;
    let query =
        "{ __schema { queryType { name fields { name } } mutationType { name fields { name } }
        subscriptionType { name fields { name } } } }";
    let answer = app.gql(query, Value::Null).await;
    let mut served = Vec::new();
    for root in ["queryType", "mutationType", "subscriptionType"] {
        let name = answer.text(&format!("__schema.{root}.name")).to_owned();
        for field in answer.list(&format!("__schema.{root}.fields")) {
            served.push(format!("{name}.{}", field["name"].as_str().unwrap()));
        }
    }
    served.sort();
    assert_eq!(
        served,
        rules.keys().map(|k| (*k).to_owned()).collect::<Vec<_>>()
    );

    let samples = [
        ("logout", r#"logout(input: {}) { loggedOut }"#),
        (
            "updateProfile",
            r#"updateProfile(input: {}) { user { id } }"#,
        ),
        (
            "createShop",
            r#"createShop(input: { name: "x", typeId: "U2hvcFR5cGU6MQ", location: { latitude: 1, longitude: 1 } }) { shop { id } }"#,
        ),
        (
            "updateShop",
            r#"updateShop(input: { shopId: "U2hvcDox", name: "x", typeId: "U2hvcFR5cGU6MQ", location: { latitude: 1, longitude: 1 } }) { shop { id } }"#,
        ),
        (
            "closeShop",
            r#"closeShop(input: { shopId: "U2hvcDox" }) { shop { id } }"#,
        ),
        (
            "createVoucher",
            r#"createVoucher(input: { shopId: "U2hvcDox", kind: ORDINARY, title: "x", payPrice: "1", value: "1", currencyCode: "VND" }) { voucher { id } }"#,
        ),
        (
            "publishVoucher",
            r#"publishVoucher(input: { voucherId: "Vm91Y2hlcjox" }) { voucher { id } }"#,
        ),
        (
            "pauseVoucher",
            r#"pauseVoucher(input: { voucherId: "Vm91Y2hlcjox" }) { voucher { id } }"#,
        ),
        (
            "resumeVoucher",
            r#"resumeVoucher(input: { voucherId: "Vm91Y2hlcjox" }) { voucher { id } }"#,
        ),
        (
            "endVoucher",
            r#"endVoucher(input: { voucherId: "Vm91Y2hlcjox" }) { voucher { id } }"#,
        ),
        (
            "setUserBanned",
            "setUserBanned(input: { userId: \"VXNlcjox\", banned: true }) { banned }",
        ),
        (
            "follow",
            r#"follow(input: { userId: "VXNlcjox" }) { user { id } }"#,
        ),
        (
            "unfollow",
            r#"unfollow(input: { userId: "VXNlcjox" }) { user { id } }"#,
        ),
        (
            "setFeatureSwitch",
            "setFeatureSwitch(input: { name: SHOP_SEARCH, on: true }) { featureSwitch { on } }",
        ),
        (
            "adjustVoucherStock",
            r#"adjustVoucherStock(input: { voucherId: "Vm91Y2hlcjox", total: 1 }) { sale { total } }"#,
        ),
        (
            "seckillVoucher",
            r#"seckillVoucher(input: { voucherId: "Vm91Y2hlcjox", clientRequestId: "r" }) { result { __typename } }"#,
        ),
        (
            "recomputeStatistics",
            r#"recomputeStatistics(input: { day: "2026-01-02" }) { statistics { dau } }"#,
        ),
        ("signIn", "signIn(input: {}) { streak { days } }"),
        (
            "deleteImage",
            r#"deleteImage(input: { imageId: "SW1hZ2U6MQ" }) { imageId }"#,
        ),
        (
            "payOrder",
            r#"payOrder(input: { orderId: "x" }) { result { __typename } }"#,
        ),
        (
            "cancelOrder",
            r#"cancelOrder(input: { orderId: "x" }) { result { __typename } }"#,
        ),
        (
            "joinWaitlist",
            r#"joinWaitlist(input: { voucherId: "Vm91Y2hlcjox" }) { waitlistPosition }"#,
        ),
        (
            "leaveWaitlist",
            r#"leaveWaitlist(input: { voucherId: "Vm91Y2hlcjox" }) { left }"#,
        ),
        (
            "remindMe",
            r#"remindMe(input: { voucherId: "Vm91Y2hlcjox" }) { remindAt }"#,
        ),
        (
            "cancelReminder",
            r#"cancelReminder(input: { voucherId: "Vm91Y2hlcjox" }) { cancelled }"#,
        ),
        (
            "sendMessage",
            r#"sendMessage(input: { userId: "VXNlcjox", text: "x" }) { message { id } }"#,
        ),
        (
            "markConversationRead",
            r#"markConversationRead(input: { conversationId: "Q29udmVyc2F0aW9uOjE" }) { conversation { id } }"#,
        ),
        (
            "markNotificationsRead",
            r#"markNotificationsRead(input: {}) { unreadNotificationCount }"#,
        ),
        (
            "redeemOrder",
            r#"redeemOrder(input: { code: "0123456789AB" }) { result { __typename } }"#,
        ),
        (
            "addReview",
            r#"addReview(input: { shopId: "U2hvcDox", score: 5, text: "x" }) { refusal }"#,
        ),
        (
            "deleteReview",
            r#"deleteReview(input: { reviewId: "UmV2aWV3OjE" }) { reviewId }"#,
        ),
        (
            "refundOrder",
            r#"refundOrder(input: { orderId: "x" }) { result { __typename } }"#,
        ),
        (
            "claimVoucher",
            r#"claimVoucher(input: { voucherId: "Vm91Y2hlcjox", clientRequestId: "r" }) { result { __typename } }"#,
        ),
        (
            "sandboxPay",
            r#"sandboxPay(input: { orderId: "x" }) { delivered }"#,
        ),
        (
            "publishBlog",
            r#"publishBlog(input: { title: "x", content: "x" }) { blog { id } }"#,
        ),
        (
            "updateBlog",
            r#"updateBlog(input: { blogId: "QmxvZzox" }) { blog { id } }"#,
        ),
        (
            "deleteBlog",
            r#"deleteBlog(input: { blogId: "QmxvZzox" }) { deletedBlogId }"#,
        ),
        (
            "likeBlog",
            r#"likeBlog(input: { blogId: "QmxvZzox" }) { blog { id } }"#,
        ),
        (
            "unlikeBlog",
            r#"unlikeBlog(input: { blogId: "QmxvZzox" }) { blog { id } }"#,
        ),
        (
            "addComment",
            r#"addComment(input: { blogId: "QmxvZzox", text: "x" }) { comment { id } }"#,
        ),
        (
            "deleteComment",
            r#"deleteComment(input: { commentId: "Q29tbWVudDox" }) { deletedCommentId }"#,
        ),
    ];
    let guarded = rules
        .iter()
        .filter(|(field, rule)| field.starts_with("Mutation.") && **rule != "anybody")
        .count();
    assert_eq!(samples.len(), guarded);
    let user = app.as_user(&app.user().await);
    for (field, call) in samples {
        let query = format!("mutation {{ {call} }}");
        app.gql(&query, Value::Null)
            .await
            .expect_code("UNAUTHENTICATED");
        if rules[format!("Mutation.{field}").as_str()] != "signed in" {
            let answer = user.gql(&query, Value::Null).await;
            let code = answer.code().unwrap_or_default();
            assert!(
                ["FORBIDDEN", "NOT_FOUND"].contains(&code),
                "{field}: {}",
                answer.body
            );
        }
    }
    app.finish().await;
}
