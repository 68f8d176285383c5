#!lua flags=allow-oom
-- As request-begin, of an erasure, which goes on while Redis is at its `maxmemory`: it makes room.
--
-- KEYS[1] request record
--
-- ARGV[1] deadline, in milliseconds of this server's clock
-- ARGV[2] seconds for which it is remembered
-- ARGV[3] id of the operation, UUID v7
-- ARGV[4] when it was asked first, milliseconds since 1970
-- ARGV[5] fingerprint of the request; empty where any request under this key is the same one
-- ARGV[6] keyed digest of the customer that it was made for; empty where there is none
-- ARGV[7] places where the operation may have been done, separated by spaces; the last one is where it is done now
--
-- Returns 1 where this is the first request, else the record: {id, at, fingerprint, customer, places, answer}, the
-- answer nil while there is none.
-- Errors: EXPIRED -1; nothing was done.

-- @include deadline

-- @include request-begin
