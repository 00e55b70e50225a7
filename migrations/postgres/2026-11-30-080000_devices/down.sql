DROP TABLE api_keys;
DROP TABLE presence_history;
DROP TABLE relay_policy;
DROP TABLE relay_instances;
DROP TABLE devices;
