//! What the people of the demo world are called, and what they say.

/// A person: phone, name, city, a few words. The first is whom the examples in GraphiQL log in.
pub(super) const PEOPLE: [(&str, &str, &str, &str); 10] = [
    (
        "+84912345678",
        "Linh",
        "Hà Nội",
        "Always looking for the next bowl of noodles.",
    ),
    (
        "+84912345601",
        "Minh",
        "Hà Nội",
        "Coffee first, then everything else. ☕",
    ),
    (
        "+84912345602",
        "Thảo",
        "Hà Nội",
        "Street food is the best food.",
    ),
    (
        "+84912345603",
        "Quân",
        "Huế",
        "I cook on weekends and eat out on weekdays.",
    ),
    ("+84912345604", "Mai", "Đà Nẵng", "Sweet tooth. 🍮"),
    (
        "+84912345605",
        "Phúc",
        "Hà Nội",
        "I walk around the lake and write down what I find.",
    ),
    (
        "+84912345606",
        "Hương",
        "Hải Phòng",
        "Crab noodles, always.",
    ),
    (
        "+84912345607",
        "Anna",
        "Berlin",
        "On a long holiday in Việt Nam.",
    ),
    ("+84912345608", "小林", "上海", "出差路过,顺便吃遍河内。"),
    ("+84912345609", "Kenji", "大阪", "麺なら何でも。🍜"),
];

/// A note: who of `PEOPLE` wrote it, title, text.
pub(super) const NOTES: [(usize, &str, &str); 22] = [
    (
        1,
        "The quiet table upstairs",
        "Ground floor full, upstairs empty. The window looks at the lake, and the coffee is strong.",
    ),
    (
        2,
        "Ten minutes in line, worth it",
        "They open at six and are sold out by nine. Take the small bowl first: you will want dessert.",
    ),
    (
        0,
        "My list for visitors",
        "One soup, one coffee, one thing on rice, one thing on a stick. In this order, in one evening.",
    ),
    (
        0,
        "Fast fingers, cheap lunch",
        "Be logged in before it starts, and do not click twice: once is enough.",
    ),
    (
        5,
        "Three places in one street",
        "Noodles, then coffee, then something sweet, and not a hundred steps between them.",
    ),
    (
        4,
        "Egg coffee is a dessert",
        "I said what I said. Ask for the warm one and stir slowly.",
    ),
    (
        3,
        "Better than my own broth",
        "Twelve hours, they say. I believe them. I will try again on Sunday.",
    ),
    (
        6,
        "A taste of home",
        "Not quite Hải Phòng, but close enough for a rainy evening.",
    ),
    (
        7,
        "First week, first favourites",
        "Everybody is kind, nobody minds my pronunciation, and the herbs are wonderful.",
    ),
    (8, "河内的早晨", "六点的街边,一碗热汤,一杯滴漏咖啡,够了。"),
    (
        9,
        "朝の一杯",
        "スープは澄んでいて、麺はやわらかめ。ライムを忘れずに。",
    ),
    (
        1,
        "A place to work from",
        "Sockets at each table, quiet until noon, and nobody looks at the clock.",
    ),
    (
        2,
        "The sauce makes it",
        "Sour, sweet, hot, in this order. I asked for the recipe and got a smile.",
    ),
    (
        5,
        "Sunday round the lake",
        "The streets are closed to cars. Start at the north end and eat your way down.",
    ),
    (
        4,
        "Coconut, mung bean, ice",
        "Two spoons, one glass, no regrets. 🍧",
    ),
    (
        3,
        "For six people",
        "Order for four. Really. We took the rest home.",
    ),
    (
        6,
        "Rain outside, steam inside",
        "Small room, low chairs, very good soup.",
    ),
    (
        7,
        "Vegetarian and happy",
        "They have a second menu without meat; you only have to ask.",
    ),
    (8, "一个人也能吃火锅", "小锅,单人位,服务员还会帮忙拍照。"),
    (9, "また来ます", "店員さんが名前を覚えてくれていました。"),
    (
        1,
        "Closed on Mondays",
        "I always forget. Now it is written down.",
    ),
    (
        2,
        "Late, and still open",
        "One in the morning, and the grill is hot. Thank you.",
    ),
];

/// Comments, in turn.
pub(super) const COMMENTS: [&str; 8] = [
    "Went there because of you. Thank you!",
    "Is it loud in the evening?",
    "The best in this part of town.",
    "看起来很好吃!",
    "I was there yesterday and they were closed. 😢",
    "Which one is it? There are two with this name.",
    "おいしそう!",
    "Let's go together next week.",
];

/// What the first two people say to one another, in turn.
pub(super) const CHAT: [&str; 6] = [
    "Are you free for lunch tomorrow?",
    "Yes! The place by the lake?",
    "They have a flash sale, I try to get us two.",
    "You never win those. 😄",
    "This time I am fast.",
    "Tell me when you have them.",
];

/// Reviews: stars, 1 to 5, and words, in turn.
pub(super) const REVIEWS: [(i32, &str); 5] = [
    (5, "Friendly people, wonderful soup."),
    (4, "Very good, a little crowded."),
    (5, "I come every week."),
    (3, "Good food, slow kitchen."),
    (4, "Fair price for what you get."),
];
