-- Bars a sale: from now on nothing is reserved or released until `install`. Goes by EVAL, for it must work when
-- Redis has lost its scripts.
-- KEYS[1] meta  KEYS[2] recovery; both in one slot
-- ARGV[1] token of the recovery
-- Answers: 1. Complexity: O(fields of meta).
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], ARGV[1])
return 1
