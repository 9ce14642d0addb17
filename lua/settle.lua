-- Drops outbox entries whose rows or rejects are committed.
-- KEYS[1] outbox
-- ARGV: order ids, 1 to 500
-- Answers: how many entries were there. Complexity: O(order ids).
return redis.call('HDEL', KEYS[1], unpack(ARGV))
