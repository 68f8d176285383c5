-- The user of CLICKHOUSE_URL: run once, as an administrator, with another password.
CREATE USER wishmeter_service IDENTIFIED WITH sha256_password BY 'replace-me-too';
GRANT CREATE DATABASE, SELECT, INSERT, ALTER, SHOW, TRUNCATE, OPTIMIZE,
  CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW ON wishmeter.* TO wishmeter_service;
