DROP TABLE relay_policy;
DROP TABLE relay_instances;
DROP TABLE devices;
