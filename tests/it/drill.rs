//! The drill: a whole sale by way of the API, checked from both ends.

use std::sync::Arc;

use lifemate::drill::{DrillOptions, DrillReport, run};

use crate::support::app::TestApp;

async fn drill(app: &TestApp, urls: Vec<String>, users: u32, stock: u32) -> DrillReport {
    let options = DrillOptions {
        urls,
        users,
        stock,
        clients: 20,
        progress: Arc::new(|_| {}),
    };
    run(app.services(), options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drill_on_two_nodes_sells_every_unit_once_and_proves_it() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let urls = vec![
        app.client().base_url().to_owned(),
        second.base_url().to_owned(),
    ];
    let report = drill(&app, urls, 150, 40).await;
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.rows, 40, "{report}");
    assert!(
        report.accepted <= 40 && report.answers["SoldOut"] > 0,
        "{report}"
    );
    assert!(
        report.samples > 0 && report.rows_per_second > 0.0,
        "{report}"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drill_on_the_embedded_stores_is_clean() {
    let app = TestApp::build().embedded().start().await;
    let urls = vec![app.client().base_url().to_owned()];
    let report = drill(&app, urls, 100, 200).await;
    assert!(report.is_clean(), "{report}");
    // There are more units than buyers: whoever did not hang up has one.
    assert!(
        report.rows <= 100 && report.rows + report.unanswered >= 100,
        "{report}"
    );
    app.finish().await;
}
