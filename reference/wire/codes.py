"""Request and response codes of the remoting protocol, as far as the reference system speaks it.

Sources: Apache RocketMQ's ``RequestCode`` and ``ResponseCode`` (5.x). Codes from 9000 on are our own, used only between
our own nodes and by the harness.
"""

from __future__ import annotations

from enum import IntEnum

#: Codes from here on, and before those of RocketMQ's pop consumption, are our own.
FIRST_OF_OUR_OWN, END_OF_OUR_OWN = 9000, 10_000


class Request(IntEnum):
    # clients → broker
    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    GET_ALL_TOPIC_CONFIG = 21
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39  # broker → producer (one-way)
    NOTIFY_CONSUMER_IDS_CHANGED = 40  # broker → consumers (one-way)
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    CHECK_CLIENT_CONFIG = 46
    GET_ALL_SUBSCRIPTION_GROUPS = 201
    GET_TOPIC_STATS = 202
    GET_CONSUMER_CONNECTIONS = 203
    GET_PRODUCER_CONNECTIONS = 204
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    RESET_CONSUMER_CLIENT_OFFSET = 220  # broker → consumers (one-way)
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    QUERY_GROUPS_OF_TOPIC = 300
    GET_SYSTEM_TOPICS = 305
    SEND_MESSAGE_V2 = 310
    GET_BROKER_CONSUME_STATS = 317
    SEND_BATCH_MESSAGE = 320
    QUERY_CONSUME_QUEUE = 321
    GET_ALL_PRODUCERS = 328
    QUERY_TOPICS_OF_GROUP = 343
    QUERY_SUBSCRIPTION_OF_GROUP = 345
    GET_TOPIC_CONFIG = 351
    GET_SUBSCRIPTION_GROUP = 352
    LITE_PULL_MESSAGE = 361
    QUERY_ASSIGNMENT = 400
    GET_BROKER_HA_STATUS = 907
    GET_BROKER_EPOCH_CACHE = 1007
    NOTIFY_BROKER_ROLE_CHANGED = 1008
    POP_MESSAGE = 200050
    ACK_MESSAGE = 200051
    CHANGE_MESSAGE_INVISIBLETIME = 200053
    # → name server
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_NAMESERVER = 216
    UPDATE_NAMESERVER_CONFIG = 318
    GET_NAMESERVER_CONFIG = 319
    ADD_WRITE_PERM = 327
    # → controller
    BROKER_HEARTBEAT = 904
    CONTROLLER_ALTER_SYNC_STATE_SET = 1001
    CONTROLLER_ELECT_MASTER = 1002
    CONTROLLER_REGISTER_BROKER = 1003
    CONTROLLER_GET_REPLICA_INFO = 1004
    CONTROLLER_GET_METADATA_INFO = 1005
    CONTROLLER_GET_SYNC_STATE_DATA = 1006
    UPDATE_CONTROLLER_CONFIG = 1009
    GET_CONTROLLER_CONFIG = 1010
    CLEAN_BROKER_DATA = 1011
    CONTROLLER_GET_NEXT_BROKER_ID = 1012
    CONTROLLER_APPLY_BROKER_ID = 1013
    # our own: Raft
    RAFT_PRE_VOTE = 9001
    RAFT_VOTE = 9002
    RAFT_APPEND = 9003
    RAFT_SNAPSHOT = 9004
    RAFT_READ = 9005  # follower → leader: an index that is safe to read at
    RAFT_TIMEOUT_NOW = 9006  # leader → follower: stand for election at once
    CONTROLLER_TRANSFER_LEADER = 9007  # the harness → the controllers' leader: let another one lead
    CONTROLLER_CHANGE_MEMBERS = 9008  # the harness → the controllers' leader: let one join or leave
    CONTROLLER_PASS_HEARTBEATS = 9009  # follower → leader: heartbeats of brokers that it has heard (one-way)
    # our own: metadata
    METADATA_PUT = 9011  # client → the controllers' leader: make, change or delete an entry
    METADATA_GET = 9012  # client → controller, name server or broker: an entry, as the node knows it
    METADATA_WATCH = 9013  # → controller: what has changed after a revision, as soon as something has
    # our own: replication
    REPLICA_HELLO = 9101  # slave → master: handshake
    REPLICA_APPEND = 9102  # master → slave: records, confirm offset, manifest versions (one-way)
    REPLICA_ACK = 9103  # slave → master: durable end (one-way)
    REPLICA_BOOTSTRAP = 9104  # master → slave: the state at S for an empty slave
    # our own: object store
    STORE_PUT = 9201
    STORE_CAS = 9202
    STORE_GET = 9203
    STORE_LIST = 9204
    STORE_DELETE = 9205
    # our own: the harness observes and collects
    DESCRIBE = 9301  # any node → JSON snapshot of its state
    READ_LOG = 9302  # broker: records from a position, in slices
    READ_STATE = 9303  # broker: epochs, bounds, consumer offsets, topics, manifest views
    # our own: the harness has the object store get requests wrong, by rules with ids
    STORE_BREAK = 9304
    STORE_MEND = 9305
    STORE_HITS = 9306
    # our own: the harness has a gateway delete all of its objects, at the end of a run
    STORE_CLEAR = 9307
    # our own: a cluster whose storage is apart from its brokers
    META_REGISTER = 9401  # broker or store → meta: a new life, or a new disk
    META_HEARTBEAT = 9402  # broker or store → meta (one-way)
    META_REPORT = 9403  # leader of a group → meta: its committed members
    META_TOPIC = 9404  # broker, administrator → meta: create or change a topic
    META_DELETE_TOPIC = 9405
    META_DRAIN = 9406  # administrator → meta: a node is to hold nothing any more
    META_UNDRAIN = 9407
    GROUPS_MESSAGES = 9410  # store → store: Raft's messages of several groups (one-way)
    GROUPS_BEATS = 9411  # store → store: what its leaders of settled groups say, for all of them at once (one-way)
    GROUP_REMOVED = 9412  # in GROUPS_MESSAGES: the committed members, for a replica that is none any more
    GROUP_FENCE = 9420  # broker → store: an epoch begins in a group
    GROUP_APPEND = 9421  # broker → store: records at a position
    GROUP_COMMIT = 9422  # broker → store: a consumer group's offset
    GROUP_READ = 9423  # broker → store: records of a queue
    GROUP_CONFIRM = 9424  # broker → store: whether its epoch is still the newest
    SEGMENT_GET = 9425  # store → store: bytes of a sealed segment


class Response(IntEnum):
    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29
    POLLING_TIMEOUT = 210
    CONSUMER_NOT_ONLINE = 206
    CONTROLLER_FENCED_MASTER_EPOCH = 2000
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH = 2001
    CONTROLLER_INVALID_MASTER = 2002
    CONTROLLER_INVALID_REPLICAS = 2003
    CONTROLLER_MASTER_NOT_AVAILABLE = 2004
    CONTROLLER_INVALID_REQUEST = 2005
    CONTROLLER_BROKER_NOT_ALIVE = 2006
    CONTROLLER_NOT_LEADER = 2007
    CONTROLLER_BROKER_METADATA_NOT_EXIST = 2008
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA = 2009
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED = 2010
    CONTROLLER_MASTER_STILL_EXIST = 2011
    CONTROLLER_ELECT_MASTER_FAILED = 2012
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED = 2013
    CONTROLLER_BROKER_ID_INVALID = 2014
    # our own: metadata
    METADATA_CONFLICT = 9281
    # our own: object store
    STORE_EXISTS = 9290
    STORE_CONFLICT = 9291
    STORE_ABSENT = 9292
    # our own: groups of a storage cluster
    GROUP_NOT_LEADER = 9460
    GROUP_MOVED = 9461
    GROUP_FENCED = 9462
    GROUP_BEHIND = 9463
    GROUP_GAP = 9464
    GROUP_BELOW_START = 9465
    GROUP_OTHER = 9466
