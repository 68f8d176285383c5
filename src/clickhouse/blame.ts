// What a failed insert says about its lines. Codes are those of ClickHouse's ErrorCodes.cpp.
// Only the code is trusted: the text, and the name read from it, may quote the line.

import { ClickHouseError } from '@clickhouse/client';

/**
 * - `data`: something in the lines; other lines may pass.
 * - `server`: the connection, the server or its set-up; the same lines pass later.
 * - `unknown`: taken for `server` first.
 */
export type Blame = 'data' | 'server' | 'unknown';

// Only what a line can be guilty of on its own. TYPE_MISMATCH and CANNOT_CONVERT_TYPE are left out on purpose:
// they also come from a table or a materialized view that was changed by hand, and then from every line.
const DATA = new Set([
  6, // CANNOT_PARSE_TEXT
  25, // CANNOT_PARSE_ESCAPE_SEQUENCE
  26, // CANNOT_PARSE_QUOTED_STRING
  27, // CANNOT_PARSE_INPUT_ASSERTION_FAILED
  32, // ATTEMPT_TO_READ_AFTER_EOF
  33, // CANNOT_READ_ALL_DATA
  38, // CANNOT_PARSE_DATE
  41, // CANNOT_PARSE_DATETIME
  69, // ARGUMENT_OUT_OF_BOUND
  72, // CANNOT_PARSE_NUMBER
  117, // INCORRECT_DATA
  130, // CANNOT_READ_ARRAY_FROM_TEXT
  131, // TOO_LARGE_STRING_SIZE
  321, // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
  349, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
  376, // CANNOT_PARSE_UUID
  407, // DECIMAL_OVERFLOW
  441, // CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING
  467, // CANNOT_PARSE_BOOL
  469, // VIOLATED_CONSTRAINT
  563, // CANNOT_READ_MAP_FROM_TEXT
  626, // CANNOT_SKIP_UNKNOWN_FIELD
  632, // UNEXPECTED_DATA_AFTER_PARSED_VALUE
  675, // CANNOT_PARSE_IPV4
  676, // CANNOT_PARSE_IPV6
  691, // UNKNOWN_ELEMENT_OF_ENUM
  760, // UNICODE_ERROR
]);

const SERVER = new Set([
  3, // UNEXPECTED_END_OF_FILE
  16, // NO_SUCH_COLUMN_IN_TABLE
  60, // UNKNOWN_TABLE
  74, // CANNOT_READ_FROM_FILE_DESCRIPTOR
  75, // CANNOT_WRITE_TO_FILE_DESCRIPTOR
  76, // CANNOT_OPEN_FILE
  81, // UNKNOWN_DATABASE
  95, // CANNOT_READ_FROM_SOCKET
  96, // CANNOT_WRITE_TO_SOCKET
  159, // TIMEOUT_EXCEEDED
  160, // TOO_SLOW
  164, // READONLY
  173, // CANNOT_ALLOCATE_MEMORY
  192, // UNKNOWN_USER
  193, // WRONG_PASSWORD
  194, // REQUIRED_PASSWORD
  195, // IP_ADDRESS_NOT_ALLOWED
  198, // DNS_ERROR
  201, // QUOTA_EXCEEDED
  202, // TOO_MANY_SIMULTANEOUS_QUERIES
  203, // NO_FREE_CONNECTION
  204, // CANNOT_FSYNC
  209, // SOCKET_TIMEOUT
  210, // NETWORK_ERROR
  218, // TABLE_IS_DROPPED
  225, // NO_ZOOKEEPER
  236, // ABORTED
  241, // MEMORY_LIMIT_EXCEEDED
  242, // TABLE_IS_READ_ONLY
  243, // NOT_ENOUGH_SPACE
  252, // TOO_MANY_PARTS
  254, // NO_ACTIVE_REPLICAS
  279, // ALL_CONNECTION_TRIES_FAILED
  285, // TOO_FEW_LIVE_REPLICAS
  286, // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
  289, // REPLICA_IS_NOT_IN_QUORUM
  291, // DATABASE_ACCESS_DENIED
  294, // CANNOT_WRITE_TO_FILE
  319, // UNKNOWN_STATUS_OF_INSERT
  364, // RECEIVED_ERROR_TOO_MANY_REQUESTS
  394, // QUERY_WAS_CANCELLED
  425, // SYSTEM_ERROR
  439, // CANNOT_SCHEDULE_TASK
  497, // ACCESS_DENIED
  499, // S3_ERROR
  516, // AUTHENTICATION_FAILED
  574, // DISTRIBUTED_TOO_MANY_PENDING_BYTES
  692, // TOO_MANY_MUTATIONS
  733, // TABLE_IS_BEING_RESTARTED
  735, // QUERY_WAS_CANCELLED_BY_CLIENT
  745, // SERVER_OVERLOADED
  749, // TCP_CONNECTION_LIMIT_REACHED
  762, // HTTP_CONNECTION_LIMIT_REACHED
  776, // RESOURCE_LIMIT_EXCEEDED
  777, // MEMORY_RESERVATION_KILLED
  778, // MEMORY_RESERVATION_FAILED
  999, // KEEPER_EXCEPTION
]);

// ClickHouse refuses an insert with these before it begins.
const NOT_BEGUN = new Set([
  202, // TOO_MANY_SIMULTANEOUS_QUERIES
  252, // TOO_MANY_PARTS
  745, // SERVER_OVERLOADED
]);

/** An error without ClickHouse's code is the connection's, or of something in between. */
export function blame(error: unknown): Blame {
  const code = errorCode(error);
  if (code === 0 || SERVER.has(code)) return 'server';
  return DATA.has(code) ? 'data' : 'unknown';
}

/**
 * Whether rows of an insert that failed like this may be stored, or its deduplication token remembered without them
 * (see stored.ts). True for every error that ClickHouse does not surely answer before it stores anything.
 */
export function isOutcomeUnknown(error: unknown): boolean {
  const code = errorCode(error);
  return !NOT_BEGUN.has(code) && !DATA.has(code);
}

/** ClickHouse's number for an error; 0 where ClickHouse did not answer. */
export function errorCode(error: unknown): number {
  return error instanceof ClickHouseError ? Number(error.code) : 0;
}
